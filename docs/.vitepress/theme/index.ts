/** The default theme with system fonts, the colours of the logo, and the explainer of the home page. */
import type { Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import TrafficExplainer from "./TrafficExplainer.vue";
import "./style.css";

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component("TrafficExplainer", TrafficExplainer);
  },
} satisfies Theme;
