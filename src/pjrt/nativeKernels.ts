/**
 * The native CPU kernels, a library that the set-up builds from `native/` where a C++ compiler is: registered with the plugin as
 * handlers of custom calls. Whatever is amiss, programs do without them, and `halfbyte doctor` says why.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { UserError } from "../base/errors.ts";
import { hostArray } from "../core/hostArray.ts";
import type { Client } from "./client.ts";
import {
  type KernelInstructions,
  kernelInstructions,
  nativeKernelsWanted,
  wantedInstructions,
} from "./environmentChoices.ts";
import { addressOf, loadLibrary, type NativeLibrary, type Pointer, readString, viewAt } from "./native.ts";
import { cacheFolder, type Plugin, setUp } from "./plugin.ts";
import { put } from "./transfers.ts";

/** Whether a client's programs call native kernels: with which instructions, or why not. */
export type NativeKernels =
  | {
      readonly used: true;
      readonly instructionSet: KernelInstructions;
      /** As programs name it. */
      readonly instructions: number;
      readonly compiler: string;
      /** SHA-256 of the library. */
      readonly identity: string;
    }
  | { readonly used: false; readonly reason: string };

interface Library {
  readonly path: string;
  readonly sha256: string;
  readonly compiler: string;
}

const answers = new WeakMap<Client, Promise<NativeKernels>>();

/**
 * Whether the client's programs call native kernels; found once for each client, by running one.
 * @throws UserError where HALFBYTE_NATIVE_KERNELS has no meaning, or HALFBYTE_NATIVE_ISA names instructions that are not there
 */
export function nativeKernels(client: Client): Promise<NativeKernels> {
  let answer = answers.get(client);
  if (answer === undefined) {
    answer = find(client);
    answers.set(client, answer);
  }
  return answer;
}

async function find(client: Client): Promise<NativeKernels> {
  const not = (reason: string): NativeKernels => ({ used: false, reason });
  if (!nativeKernelsWanted()) return not(`HALFBYTE_NATIVE_KERNELS is ${process.env.HALFBYTE_NATIVE_KERNELS}`);
  if (!client.nativeKernelsWanted) return not("native_kernels is off");
  if (client.platformName !== "cpu") return not(`the platform is ${client.platformName}`);
  const library = locateLibrary();
  if (library === undefined) return not(`they are not built: ${setUp} (it builds them where a C++ compiler is)`);
  if (!isWhole(library)) return not(`${library.path} is not what was built: ${setUp}, which builds it again`);
  let instructionSet: KernelInstructions | undefined;
  try {
    const loaded = loadLibrary(library.path, "the native kernels");
    instructionSet = chooseInstructions(Number(loaded.callSymbol("halfbyte_instruction_sets") ?? 0n));
    if (instructionSet === undefined) return not("the processor has neither AVX2 nor AVX-512");
    register(client.plugin, loaded);
    if (!(await answersRightly(client, kernelInstructions[instructionSet])))
      return not("a trial call gave wrong results");
  } catch (error) {
    if (error instanceof UserError && error.code === "E_NATIVE") throw error;
    return not((error as Error).message.split("\n")[0]!);
  }
  const { compiler, sha256: identity } = library;
  return { used: true, instructionSet, instructions: kernelInstructions[instructionSet], compiler, identity };
}

/** Whether the file is what its record says: one that was cut off would end the process when it is read, another gives other bits. */
function isWhole({ path, sha256 }: Library): boolean {
  try {
    return createHash("sha256").update(readFileSync(path)).digest("hex") === sha256;
  } catch {
    return false;
  }
}

/** As scripts/nativeKernels.mjs names its folder: by the sources. */
function locateLibrary(): Library | undefined {
  const sources = fileURLToPath(new URL("../../native", import.meta.url));
  if (!existsSync(sources)) return undefined;
  const hash = createHash("sha256");
  for (const name of readdirSync(sources).sort()) {
    if (/\.(cpp|h)$/.test(name)) hash.update(`${name}\n`).update(readFileSync(join(sources, name)));
  }
  const folder = join(cacheFolder(), "native", hash.digest("hex").slice(0, 24));
  try {
    const record = JSON.parse(readFileSync(join(folder, "halfbyte.json"), "utf8")) as Library & { library: string };
    return { ...record, path: join(folder, record.library) };
  } catch {
    return undefined;
  }
}

/** The best of those that are there, or HALFBYTE_NATIVE_ISA. */
function chooseInstructions(bits: number): KernelInstructions | undefined {
  const there = (Object.keys(kernelInstructions) as KernelInstructions[]).filter(
    (name) => bits & kernelInstructions[name],
  );
  const chosen = wantedInstructions();
  if (chosen === undefined) return there.at(-1);
  const found = there.find((name) => name === chosen);
  if (found !== undefined) return found;
  const known = there.length === 0 ? "none" : there.join(", ");
  throw new UserError("E_NATIVE", `HALFBYTE_NATIVE_ISA is ${chosen}; this processor's instruction sets are: ${known}`);
}

const registered = new WeakSet<Plugin>();

/** PJRT's numbers: the type of the extension, and where it has the function that registers a handler. */
const ffiExtension = { type: 5, registerAt: 40 } as const;

function register(plugin: Plugin, library: NativeLibrary): void {
  if (registered.has(plugin)) return;
  const extension = plugin.api.extension(ffiExtension.type);
  if (extension === undefined) throw new Error("the PJRT plugin takes no foreign functions");
  const registerHandler = viewAt(extension, 48).getBigUint64(ffiExtension.registerAt, true);
  for (const { name, handler } of handlersOf(library)) {
    const strings = { name: Buffer.from(name), platform: Buffer.from("Host") };
    const size = 52;
    // Size, name, its length, handler, platform, its length, traits (32 bits).
    const args = new BigUint64Array(7);
    args.set([
      BigInt(size),
      addressOf(strings.name),
      BigInt(strings.name.length),
      handler,
      addressOf(strings.platform),
      BigInt(strings.platform.length),
    ]);
    plugin.api.callExtension(registerHandler, new Uint8Array(args.buffer), strings);
  }
  registered.add(plugin);
}

function handlersOf(library: NativeLibrary): { name: string; handler: Pointer }[] {
  const found = [];
  const entryBytes = 24;
  for (let at = library.callSymbol("halfbyte_handlers")!; ; at += BigInt(entryBytes)) {
    const entry = viewAt(at, entryBytes);
    const name = entry.getBigUint64(0, true);
    if (name === 0n) return found;
    found.push({
      name: readString(name, Number(entry.getBigUint64(8, true))),
      handler: entry.getBigUint64(16, true),
    });
  }
}

/** Whether a call reaches the library and comes back as both sides understand it. */
async function answersRightly(client: Client, instructions: number): Promise<boolean> {
  const type = "tensor<37xi32>";
  const compiled = await client.compile(`module @native_probe {
  func.func public @main(%x: ${type}) -> ${type} {
    %y = stablehlo.custom_call @halfbyte_probe(%x) {api_version = 4 : i32, backend_config = {instructions = ${instructions} : i64}} : (${type}) -> ${type}
    return %y : ${type}
  }
}`);
  const values = Int32Array.from({ length: 37 }, (_, i) => 1000 * i - 7);
  const x = put(hostArray([37], "int32", values), client);
  try {
    const { outputs, done } = await compiled.execute([x]);
    await done;
    const { data } = await outputs[0]!.toHost();
    outputs[0]!.dispose();
    return values.every((value, i) => data[i] === 3 * value);
  } finally {
    x.dispose();
    compiled.dispose();
  }
}
