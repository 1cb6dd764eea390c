/** Platforms and proxies with a known client address header, and how to verify that a request came through them. */

/** A platform or proxy in front of the server. */
export type Preset = "cloudflare" | "vercel" | "netlify" | "fly" | "fastly" | "aws" | "nginx";

interface Front {
  /** The header that it sets; it overwrites one that a client sends. */
  readonly header: string;
  /** Whether this code runs on the platform, where only the platform can connect to it. */
  runsHere?(): boolean;
  /** The networks that it connects from, if they are published. */
  readonly ranges?: readonly string[];
}

/** Globals that only the platforms define. */
interface Platform {
  readonly navigator?: { readonly userAgent?: string };
  readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> };
  readonly Netlify?: unknown;
}

const platform = globalThis as Platform;
const env = (name: string): boolean => Boolean(platform.process?.env?.[name]);

/** Every preset reads one header. One without `runsHere` and `ranges` requires `trustedProxies`. */
export const presets: Readonly<Record<Preset, Front>> = {
  cloudflare: {
    header: "cf-connecting-ip",
    runsHere: runsOnWorkers,
    // From https://www.cloudflare.com/ips/. A peer of a missing range is identified by its own address: safe, but shared.
    ranges: [
      "173.245.48.0/20",
      "103.21.244.0/22",
      "103.22.200.0/22",
      "103.31.4.0/22",
      "141.101.64.0/18",
      "108.162.192.0/18",
      "190.93.240.0/20",
      "188.114.96.0/20",
      "197.234.240.0/22",
      "198.41.128.0/17",
      "162.158.0.0/15",
      "104.16.0.0/13",
      "104.24.0.0/14",
      "172.64.0.0/13",
      "131.0.72.0/22",
      "2400:cb00::/32",
      "2606:4700::/32",
      "2803:f800::/32",
      "2405:b500::/32",
      "2405:8100::/32",
      "2a06:98c0::/29",
      "2c0f:f248::/32",
    ],
  },
  vercel: { header: "x-vercel-forwarded-for", runsHere: () => env("VERCEL") },
  netlify: { header: "x-nf-client-connection-ip", runsHere: () => platform.Netlify !== undefined },
  fly: { header: "fly-client-ip", runsHere: () => env("FLY_APP_NAME") },
  fastly: { header: "fastly-client-ip" },
  aws: { header: "x-forwarded-for" },
  nginx: { header: "x-real-ip" },
};

/** Whether this code runs on Cloudflare Workers. */
export function runsOnWorkers(): boolean {
  return platform.navigator?.userAgent === "Cloudflare-Workers";
}
