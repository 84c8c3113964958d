/**
 * The only file that touches koffi: loading and pinning a shared library, native memory, and leaving the process.
 *
 * Three rules, each of which crashed or hung when it was broken:
 * - koffi runs native code on stacks of its own, too small for the XLA compiler: both are set to its maximum of 16 MiB
 *   before the first library is loaded.
 * - koffi closes libraries at exit while the plugin's exit handlers still point into it: the library is pinned with
 *   RTLD_NODELETE first.
 * - no native thread ever calls back into JavaScript: long calls go through koffi's async form and are awaited.
 */
import { createRequire } from "node:module";
import type Koffi from "koffi";
import type { LibraryHandle } from "koffi";
import { UserError } from "../base/errors.ts";

/** A native address; 0n is null. */
export type Pointer = bigint;

/** A pointer to one `_Args` struct in, a pointer to a PJRT_Error (null on success) out. */
export interface NativeFunction {
  (args: Uint8Array): Pointer | null;
  async(args: Uint8Array, done: (error: unknown, result: Pointer | null) => void): void;
}

export interface NativeLibrary {
  /** Calls an exported function without arguments that returns a pointer. @throws where the symbol is missing. */
  callSymbol(name: string): Pointer | null;
}

const stackSize = 16 << 20;
const lazy = <T>(make: () => T): (() => T) => {
  let value: { readonly made: T } | undefined;
  return () => {
    value ??= { made: make() };
    return value.made;
  };
};

/** Loaded at the first use: a program that imports Halfbyte may never come to a device. */
const koffi = lazy((): typeof Koffi => createRequire(import.meta.url)("koffi"));

const prepare = lazy(() => {
  const { sync_stack_size: sync = 0, async_stack_size: async = 0 } = koffi().config();
  if (sync < stackSize || async < stackSize)
    koffi().config({ sync_stack_size: stackSize, async_stack_size: stackSize });
});

const libc = lazy(() => {
  prepare();
  const library = loadSystemLibrary(process.platform === "darwin" ? "libSystem.B.dylib" : "libc.so.6");
  return {
    dlopen: library.func("void *dlopen(const char *path, int flags)"),
    dlerror: library.func("const char *dlerror()"),
    exit: library.func("void _exit(int code)"),
  };
});

function loadSystemLibrary(name: string): LibraryHandle {
  try {
    return koffi().load(name);
  } catch {
    throw new UserError(
      "E_PLATFORM",
      `PJRT plugins need the system's C library as ${name} (glibc on Linux), which is not there; use a distribution with glibc 2.27 or newer`,
    );
  }
}

const pjrtFunction = lazy(() => koffi().proto("void *HalfbytePjrtFunction(void *args)"));
const deleter = lazy(() => koffi().proto("void HalfbyteDeleter(void *object)"));

/** Loads a shared library, which errors call `what`; it stays mapped until the process ends. @throws UserError with the loader's reason. */
export function loadLibrary(path: string, what: string): NativeLibrary {
  if (process.platform === "win32") {
    throw new UserError(
      "E_PLATFORM",
      "PJRT plugins can't be loaded on Windows; run Halfbyte in WSL2 or a Linux container",
    );
  }
  const now = 2;
  const noDelete = process.platform === "darwin" ? 0x80 : 0x1000;
  if (libc().dlopen(path, now | noDelete) === null) {
    throw new UserError("E_PLUGIN", `can't load ${what} ${path}: ${String(libc().dlerror())}`);
  }
  const library = koffi().load(path);
  return { callSymbol: (name) => library.func(name, "void *", [])() as Pointer | null };
}

/** The PJRT function at an address. */
export function functionAt(address: Pointer): NativeFunction {
  return koffi().decode(address, pjrtFunction()) as NativeFunction;
}

/** Calls a `void f(void *)` of the plugin, such as the deleter of serialized bytes. */
export function callDeleter(address: Pointer, object: Pointer): void {
  (koffi().decode(address, deleter()) as (object: Pointer) => void)(object);
}

/** Address of a view's first byte; the view must be kept alive, and its bytes don't move while it is. */
export function addressOf(view: ArrayBufferView): Pointer {
  return view.byteLength === 0 ? 0n : koffi().address(view);
}

/** Native bytes without a copy: valid only as long as the memory itself. */
export function viewAt(address: Pointer, byteLength: number): DataView {
  return new DataView(byteLength === 0 ? new ArrayBuffer(0) : koffi().view(address, byteLength));
}

/** A copy of native bytes. */
export function copyBytes(address: Pointer, byteLength: number): Uint8Array {
  if (byteLength === 0) return new Uint8Array(0);
  return new Uint8Array(koffi().view(address, byteLength)).slice();
}

/** A copy of a native UTF-8 string of known length. */
export function readString(address: Pointer, byteLength: number): string {
  return new TextDecoder().decode(copyBytes(address, byteLength));
}

/**
 * Leaves the process at once, without waiting for device work that a pending await would otherwise hold it for.
 * Anything written must be flushed before.
 */
export function exitNow(code: number): never {
  libc().exit(code);
  throw new Error("unreachable");
}
