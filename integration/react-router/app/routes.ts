import { type RouteConfig, route } from "@react-router/dev/routes";

export default [
  route("v1/login", "login.ts"),
  route("v1/files/:id", "file.ts"),
  route("v1/*", "v1.ts"),
  route("healthz", "health.ts"),
  route("*", "suite.ts"),
] satisfies RouteConfig;
