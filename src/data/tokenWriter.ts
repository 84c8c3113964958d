/** Writes the tokens of a data set into a folder of files, with what tells that they are whole. */
import { createHash, type Hash } from "node:crypto";
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { TokenBlock } from "./tokenBlocks.ts";
import type { TokenWidth } from "./tokenFiles.ts";

export const tokenFormat = "halfbyte tokens 1";

const fileRecord = z.object({ bytes: z.int().nonnegative(), sha256: z.string() });

/** manifest.json of a folder of tokens, written last. */
const manifestSchema = z.object({
  format: z.literal(tokenFormat),
  /** What the tokens were made of, for people. */
  madeOf: z.record(z.string(), z.unknown()),
  width: z.enum(["uint16", "uint32"]),
  tokens: z.int().nonnegative(),
  documents: z.int().nonnegative(),
  /** The smallest of the numbers that decide what is held out; absent where there is no document. */
  smallestDraw: z.int().nonnegative().optional(),
  /** Of each file, the number of the document that it is as a plain text; null for others. Absent for stored tokens. */
  textDraws: z.array(z.int().nonnegative().nullable()).optional(),
  badRecords: z.object({ count: z.int().nonnegative(), first: z.string().optional() }),
  /** ends.bin, draws.bin; tokens.bin where the user has none; mask.bin where some tokens are not to be predicted. */
  files: z.record(z.string(), fileRecord),
});
export type TokenManifest = z.infer<typeof manifestSchema>;

/** What a folder of tokens holds. */
export interface TokenForm {
  readonly width: TokenWidth;
  /** It says which tokens are to be predicted. */
  readonly masked: boolean;
  /** The tokens themselves lie in the user's files. Default: here. */
  readonly stored?: boolean;
}

const hashOfManifest = (manifest: TokenManifest): string =>
  createHash("sha256")
    .update(JSON.stringify(manifestSchema.parse(manifest)))
    .digest("hex");

/** The manifest of a manifest.json. @throws Error where it is damaged */
export function parseManifest(text: string): TokenManifest {
  const { sha256, ...manifest } = manifestSchema.extend({ sha256: z.string() }).parse(JSON.parse(text));
  if (hashOfManifest(manifest) !== sha256) throw new Error("manifest.json is damaged");
  return manifest;
}

/** Owns open files: `finish` or `abandon` it. */
export class TokenWriter {
  readonly folder: string;
  readonly #width: TokenWidth;
  readonly #files: {
    readonly tokens?: HashedFile;
    readonly ends: HashedFile;
    readonly draws: HashedFile;
    readonly mask?: HashedFile;
  };
  #tokens = 0;
  #documents = 0;
  #smallestDraw = Number.POSITIVE_INFINITY;

  /** @param folder exists and is empty */
  constructor(folder: string, { width, masked, stored = false }: TokenForm) {
    this.folder = folder;
    this.#width = width;
    const file = (name: string) => new HashedFile(folder, name);
    this.#files = {
      ...(!stored && { tokens: file("tokens.bin") }),
      ...{ ends: file("ends.bin"), draws: file("draws.bin") },
      ...(masked && { mask: file("mask.bin") }),
    };
  }

  get tokens(): number {
    return this.#tokens;
  }

  append({ tokens, mask, ends, draws }: TokenBlock): void {
    const { tokens: tokenFile, ends: endFile, draws: drawFile, mask: maskFile } = this.#files;
    tokenFile?.append(tokens);
    if (mask) maskFile?.append(mask);
    endFile.append(ends.map((end) => end + this.#tokens));
    drawFile.append(draws);
    this.#tokens += tokens.length;
    this.#documents += ends.length;
    for (const draw of draws) if (draw < this.#smallestDraw) this.#smallestDraw = draw;
  }

  /** Everything is on disk when this returns. */
  finish({ madeOf, badRecords, textDraws }: Pick<TokenManifest, "madeOf" | "badRecords" | "textDraws">): TokenManifest {
    const files = Object.fromEntries(Object.values(this.#files).map((file: HashedFile) => [file.name, file.finish()]));
    const manifest: TokenManifest = {
      ...{ format: tokenFormat, madeOf, width: this.#width, tokens: this.#tokens, documents: this.#documents },
      ...(this.#documents > 0 && { smallestDraw: this.#smallestDraw }),
      ...(textDraws && { textDraws }),
      ...{ badRecords, files },
    };
    const last = new HashedFile(this.folder, "manifest.json");
    last.append(Buffer.from(`${JSON.stringify({ ...manifest, sha256: hashOfManifest(manifest) }, null, 2)}\n`));
    last.finish();
    return manifest;
  }

  abandon(): void {
    for (const file of Object.values(this.#files) as HashedFile[]) file.close();
  }
}

/** A file that is written from its beginning to its end. */
class HashedFile {
  readonly name: string;
  #fd: number;
  #hash: Hash = createHash("sha256");
  #bytes = 0;

  constructor(folder: string, name: string) {
    this.name = name;
    this.#fd = openSync(join(folder, name), "wx");
  }

  append(data: ArrayBufferView): void {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#hash.update(bytes);
    for (let done = 0; done < bytes.length; ) done += writeSync(this.#fd, bytes, done);
    this.#bytes += bytes.length;
  }

  finish(): z.infer<typeof fileRecord> {
    fsyncSync(this.#fd);
    this.close();
    return { bytes: this.#bytes, sha256: this.#hash.digest("hex") };
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = -1;
  }
}
