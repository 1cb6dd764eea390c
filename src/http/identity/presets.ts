/** Platforms and proxies whose header of the client's address is known, and how to tell that it is theirs. */

/** Names of what may stand in front of a server. */
export type Preset = "cloudflare" | "vercel" | "netlify" | "fly" | "fastly" | "aws" | "nginx";

interface Front {
  /** The header that it sets, and overwrites when a client sends it. */
  readonly header: string;
  /** Whether this code runs on the platform, where nobody else can reach it. */
  runsHere?(): boolean;
  /** Where its requests come from, if that is published and fixed. */
  readonly ranges?: readonly string[];
}

/** What the platform puts into the global scope; nothing of it is there elsewhere. */
interface Platform {
  readonly navigator?: { readonly userAgent?: string };
  readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> };
  readonly Netlify?: unknown;
}

const platform = globalThis as Platform;
const env = (name: string): boolean => Boolean(platform.process?.env?.[name]);

/** Each reads one header. Without `runsHere` and `ranges`, the proxies have to be named. */
export const presets: Readonly<Record<Preset, Front>> = {
  cloudflare: {
    header: "cf-connecting-ip",
    runsHere: runsOnWorkers,
    // https://www.cloudflare.com/ips/; a range that is missing here is known by its own address, and never spoofed.
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

/** Whether this is the Workers runtime. */
export function runsOnWorkers(): boolean {
  return platform.navigator?.userAgent === "Cloudflare-Workers";
}
