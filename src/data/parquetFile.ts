/** A Parquet file, read by hyparquet: its parts, and the rows of one of them at a time. Runs in a process of its own (parquetProcess.ts). */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import {
  type Compressors,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { parseExactJson } from "../base/exactJson.ts";
import { floatsOf } from "./parquetFloats.ts";
import { unzstdWhole } from "./zstdFrames.ts";

/** A page is unpacked whole, to the size that the file says. Writers make pages of about 1 MiB. */
const largestPage = 1 << 29;
/** How many times as large its bytes can become: by the format, or where that knows no bound, by what zstd's can. */
const largestRatio: Readonly<Record<string, number>> = { SNAPPY: 64, LZ4: 256, LZ4_RAW: 256, GZIP: 1040 };
const otherRatio = 1 << 15;
/** Rows; writers make groups of 2^17 to some millions. */
const largestGroup = 1 << 26;

export interface ParquetParts {
  /** Names. */
  readonly columns: readonly string[];
  /** Row groups in order. */
  readonly groups: readonly {
    readonly rows: number;
    /** Of the file. */
    readonly bytes: number;
  }[];
}

export interface ParquetFile extends ParquetParts {
  /** All rows of a group; of one that can't be used, why. */
  rowsOf(group: number, columns: readonly string[]): Promise<(Record<string, unknown> | string)[]>;
  close(): void;
}

/** @throws Error of any kind where it is no Parquet file */
export async function openParquet(path: string): Promise<ParquetFile> {
  const fd = openSync(path, "r");
  const close = () => closeSync(fd);
  try {
    const { size } = fstatSync(fd);
    const file = {
      byteLength: size,
      slice(start: number, end = size): ArrayBuffer {
        if (!(start >= 0 && start <= end && end <= size)) {
          throw new Error(`bytes ${start} to ${end} lie outside the file of ${size}`);
        }
        return readExactly(fd, start, end - start);
      },
    };
    const metadata = await parquetMetadataAsync(file);
    const groups = groupsOf(metadata, size);
    const schema = parquetSchema(metadata).children;
    return {
      columns: schema.map(({ element }) => element.name),
      groups,
      async rowsOf(group, columns) {
        const rowStart = groups.slice(0, group).reduce((sum, { rows }) => sum + rows, 0);
        const rowEnd = rowStart + groups[group]!.rows;
        const range = { rowStart, rowEnd };
        let isWhole = true;
        const strict = <T>(bytes: Uint8Array | undefined, read: (text: string) => T) => {
          if (!bytes) return bytes;
          try {
            return read(utf8.decode(bytes));
          } catch (error) {
            isWhole = false;
            return new Unreadable(error instanceof SyntaxError ? `not JSON (${error.message})` : "not UTF-8");
          }
        };
        const parsers = {
          stringFromBytes: (bytes: Uint8Array | undefined) => strict(bytes, (text) => text),
          jsonFromBytes: (bytes: Uint8Array | undefined) => strict(bytes, parseExactJson),
        };
        const rows = await parquetReadObjects({
          ...{ file, metadata, columns: [...columns], compressors: bounded, useOffsetIndex: false },
          ...{ ...range, parsers },
        });
        if (rows.length !== rowEnd - rowStart) throw new Error(`rows ${rowStart + 1} to ${rowEnd} are missing`);
        for (const column of schema) {
          const mark = columns.includes(column.element.name) ? floatsOf(column) : undefined;
          if (mark) for (const row of rows) row[column.element.name] = mark(row[column.element.name]);
        }
        return isWhole ? rows : rows.map((row) => fault(row) ?? row);
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });
/** Stands for a text or JSON that is none. */
class Unreadable {
  readonly why: string;
  constructor(why: string) {
    this.why = why;
  }
}

/** Why a row can't be used, and which column of it. */
function fault(row: Record<string, unknown>): string | undefined {
  for (const [column, value] of Object.entries(row)) {
    const why = faultWithin(value);
    if (why !== undefined) return why === "not UTF-8" ? why : `${JSON.stringify(column)} is ${why}`;
  }
  return undefined;
}

function faultWithin(value: unknown): string | undefined {
  if (value instanceof Unreadable) return value.why;
  if (typeof value !== "object" || value === null) return undefined;
  for (const inner of Object.values(value)) {
    const why = faultWithin(inner);
    if (why !== undefined) return why;
  }
  return undefined;
}

function groupsOf({ row_groups: groups }: FileMetaData, size: number): ParquetParts["groups"] {
  return groups.map(({ num_rows, columns }) => {
    const rows = Number(num_rows);
    if (!(rows >= 0 && rows <= largestGroup)) {
      throw new Error(`a row group of ${rows} rows; the most that is read is ${largestGroup}`);
    }
    // Nulls and empty lists are values too.
    const least = Math.min(...columns.map(({ meta_data }) => Number(meta_data?.num_values ?? rows)));
    if (least < rows) throw new Error(`a row group of ${rows} rows with a column of ${least} values`);
    const said = columns.reduce((sum, { meta_data }) => sum + Number(meta_data?.total_compressed_size ?? 0), 0);
    return { rows, bytes: Math.min(size, Math.max(0, said)) };
  });
}

function readExactly(fd: number, start: number, length: number): ArrayBuffer {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    const count = readSync(fd, bytes, done, length - done, start + done);
    if (count === 0) throw new Error("the file has become shorter");
    done += count;
  }
  return bytes.buffer;
}

const bounded: Compressors = Object.fromEntries(
  Object.entries({ ...compressors, ZSTD: unzstdWhole }).map(([name, unpack]) => [
    name,
    (input: Uint8Array, outputLength: number) => {
      const most = Math.min(largestPage, input.length * (largestRatio[name] ?? otherRatio));
      if (!(outputLength >= 0 && outputLength <= most)) {
        throw new Error(`a page of ${input.length} bytes that is to become ${outputLength}`);
      }
      return unpack(input, outputLength);
    },
  ]),
);
