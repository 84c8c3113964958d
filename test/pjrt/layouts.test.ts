import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeStruct, encodeStruct } from "../../src/pjrt/api.ts";
import { slotNames, slotOffset } from "../../src/pjrt/functionTable.ts";
import { type FieldKind, type StructName, structLayout, structs } from "../../src/pjrt/layouts.ts";

const names = Object.keys(structs) as StructName[];
const hasCompiler = spawnSync("cc", ["--version"]).status === 0;

/** Offsets that a C compiler gives, in the order of the given expressions. */
function compiled(preamble: string, expressions: readonly string[]): number[] {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-layouts-"));
  try {
    const prints = expressions.map((expression) => `printf("%zu\\n", (size_t)(${expression}));`);
    const source = `#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n${preamble}\nint main(void) { ${prints.join("\n")} return 0; }\n`;
    writeFileSync(join(folder, "offsets.c"), source);
    execFileSync("cc", ["-o", join(folder, "offsets"), join(folder, "offsets.c")]);
    return execFileSync(join(folder, "offsets"), { encoding: "utf8" }).trim().split("\n").map(Number);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const cTypes: Record<FieldKind, string> = { ptr: "void*", usize: "size_t", i64: "int64_t", i32: "int", bool: "bool" };

describe("struct layouts", () => {
  it("begin after the common header and never overlap", () => {
    for (const name of names) {
      let end = 16;
      for (const { offset, kind } of structLayout(name).fields) {
        expect(offset).toBeGreaterThanOrEqual(end);
        end = offset + { ptr: 8, usize: 8, i64: 8, i32: 4, bool: 1 }[kind];
      }
      expect(structLayout(name).size).toBe(end);
      expect(structLayout(name).stride % 8).toBe(0);
    }
  });

  it("have the sizes that plugins were seen to use", () => {
    expect(structLayout("PJRT_NamedValue").stride).toBe(56);
    expect(structLayout("PJRT_Buffer_MemoryLayout").size).toBe(76);
    expect(structLayout("PJRT_LoadedExecutable_Execute_Args").size).toBe(80);
    expect(structLayout("PJRT_Client_BufferFromHostBuffer_Args").size).toBe(120);
  });

  it.skipIf(!hasCompiler)("are what a C compiler makes of the same fields", () => {
    const declarations = names.map((name) => {
      const fields = structLayout(name).fields.map(({ name: field, kind }) => `${cTypes[kind]} ${field};`);
      return `struct ${name} { size_t struct_size; void* extension_start; ${fields.join(" ")} };`;
    });
    const expected = names.flatMap((name) => {
      const { fields, stride } = structLayout(name);
      return [...fields.map(({ offset }) => offset), stride];
    });
    const expressions = names.flatMap((name) => [
      ...structLayout(name).fields.map(({ name: field }) => `offsetof(struct ${name}, ${field})`),
      `sizeof(struct ${name})`,
    ]);
    expect(compiled(declarations.join("\n"), expressions)).toEqual(expected);
  });

  // With HALFBYTE_PJRT_HEADER=path/to/pjrt_c_api.h: the table against the API's own header, for what that header has.
  const header = process.env.HALFBYTE_PJRT_HEADER;
  it.skipIf(!hasCompiler || !header)("agree with the header at HALFBYTE_PJRT_HEADER", () => {
    const text = readFileSync(header!, "utf8");
    const inHeader: Record<string, (field: string) => string> = {
      PJRT_NamedValue: (field) => (field === "value" ? "int64_value" : field),
      PJRT_Buffer_MemoryLayout: (field) => (field === "type" ? field : `tiled.${field.replace("tiled_", "")}`),
    };
    const known = names.flatMap((name) => {
      const body = text.match(new RegExp(`struct ${name} \\{([\\s\\S]*?)\\n\\}`))?.[1];
      if (body === undefined) return [];
      return structLayout(name).fields.flatMap(({ name: field, offset }) => {
        const spelled = inHeader[name]?.(field) ?? field;
        if (!spelled.includes(".") && !new RegExp(`\\b${spelled}\\b`).test(body)) return [];
        return [{ what: `${name}.${spelled}`, expression: `offsetof(struct ${name}, ${spelled})`, offset }];
      });
    });
    const slots = slotNames
      .filter((slot) => new RegExp(`PJRT_${slot}\\b`).test(text))
      .map((slot) => ({ what: slot, expression: `offsetof(PJRT_Api, PJRT_${slot})`, offset: slotOffset(slot) }));
    expect(known.length).toBeGreaterThan(150);
    const all = [...known, ...slots];
    const offsets = compiled(
      `#include "${header}"`,
      all.map(({ expression }) => expression),
    );
    expect(all.map(({ what }, i) => `${what} ${offsets[i]}`)).toEqual(
      all.map(({ what, offset }) => `${what} ${offset}`),
    );
  });
});

describe("the function table", () => {
  it("names every function once and puts each eight bytes after the last", () => {
    expect(new Set(slotNames).size).toBe(slotNames.length);
    expect(slotOffset("Error_Destroy")).toBe(40);
    expect(slotOffset("Event_Await")).toBe(40 + 8 * 8);
    for (const name of names) {
      const slot = name.match(/^PJRT_(.*)_Args$/)?.[1];
      if (slot !== undefined) expect(slotNames, name).toContain(slot);
    }
  });
});

describe("structs as bytes", () => {
  it("hold what was put in", () => {
    const bytes = encodeStruct("PJRT_Event_IsReady_Args", { event: 0x1234_5678_9abcn, is_ready: true });
    expect(new DataView(bytes.buffer).getBigUint64(0, true)).toBe(25n);
    expect(decodeStruct("PJRT_Event_IsReady_Args", bytes)).toEqual({ event: 0x1234_5678_9abcn, is_ready: true });
    const stats = encodeStruct("PJRT_Executable_GetCompiledMemoryStats_Args", { temp_size_in_bytes: 2 ** 43 });
    expect(decodeStruct("PJRT_Executable_GetCompiledMemoryStats_Args", stats).temp_size_in_bytes).toBe(2 ** 43);
  });
});
