import { type RouteConfig, route } from "@react-router/dev/routes";

export default [route("*", "suite.ts")] satisfies RouteConfig;
