/** What the environment says of oneDNN's products and of native kernels. */
import { environmentSwitch, switchWords } from "../base/environmentSwitch.ts";
import { UserError } from "../base/errors.ts";

/** What native kernels are compiled for, worst first; the bits by which the library counts them, and programs name them. */
export const kernelInstructions = { avx2: 1, avx512: 2, avx512bf16: 4 } as const;
export type KernelInstructions = keyof typeof kernelInstructions;

/** HALFBYTE_ONEDNN; without it they are used where they are there and right. @throws UserError for any other word */
export function oneDnnWanted(): boolean {
  return environmentSwitch("HALFBYTE_ONEDNN", (given) => {
    return new UserError("E_ONEDNN", `HALFBYTE_ONEDNN is "${given}"; ${wordsOf("oneDNN's products")}`);
  });
}

/** HALFBYTE_NATIVE_KERNELS, of the same meaning as the key native_kernels. @throws UserError for any other word */
export function nativeKernelsWanted(): boolean {
  return environmentSwitch("HALFBYTE_NATIVE_KERNELS", (given) => {
    return new UserError("E_NATIVE", `HALFBYTE_NATIVE_KERNELS is "${given}"; ${wordsOf("native kernels")}`);
  });
}

const wordsOf = (what: string) =>
  `it may be ${switchWords.off.join(", ")} (without ${what}) or ${switchWords.on.join(", ")}`;

/** HALFBYTE_NATIVE_ISA. @throws UserError for a name that kernels are not compiled for */
export function wantedInstructions(): KernelInstructions | undefined {
  const given = process.env.HALFBYTE_NATIVE_ISA;
  if (!given || given in kernelInstructions) return (given || undefined) as KernelInstructions | undefined;
  const known = Object.keys(kernelInstructions).join(", ");
  throw new UserError("E_NATIVE", `HALFBYTE_NATIVE_ISA is "${given}"; kernels are compiled for ${known}`);
}

/** Before anything is read or compiled. @throws UserError where a variable has no meaning */
export function checkEnvironment(): void {
  oneDnnWanted();
  nativeKernelsWanted();
  wantedInstructions();
}
