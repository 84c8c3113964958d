/** Parquet files: a record a row, a row group in memory at a time. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { type Compressors, parquetMetadataAsync, parquetReadObjects, parquetSchema } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { UserError } from "../base/errors.ts";
import type { FileBytesOptions } from "./fileBytes.ts";
import type { ReadRecord } from "./records.ts";

/** A page is unpacked whole, to the size that the file says. Writers make pages of about 1 MiB. */
const largestPage = 1 << 29;
/** Rows; writers make groups of 2^17 to some millions. */
const largestGroup = 1 << 26;

/**
 * @param columns those that are wanted; of them, rows have those that the file has
 * @throws UserError where the file can't be read or is no Parquet file
 */
export async function* parquetRows(
  path: string,
  columns: readonly string[],
  { onRead = () => {} }: FileBytesOptions = {},
): AsyncGenerator<ReadRecord> {
  const reading = <T>(work: () => Promise<T>) =>
    work().catch((error: Error) => {
      throw new UserError("E_DATASET_READ", `${path}: can't be read as Parquet (${error.message})`, { cause: error });
    });
  const fd = await reading(async () => openSync(path, "r"));
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
    const metadata = await reading(() => parquetMetadataAsync(file));
    const names = await reading(async () => parquetSchema(metadata).children.map(({ element }) => element.name));
    const present = columns.filter((column) => names.includes(column));
    if (present.length === 0) {
      throw new UserError(
        "E_DATASET_COLUMN",
        `${path}: no column is named ${columns.join(" or ")}; it has ${names.join(", ")}: set train_data_columns`,
      );
    }
    let row = 0;
    for (const group of metadata.row_groups) {
      const rows = Number(group.num_rows);
      if (!(rows >= 0 && rows <= largestGroup)) {
        throw new UserError(
          "E_DATASET_READ",
          `${path}: a row group of ${rows} rows; the most that is read is ${largestGroup}`,
        );
      }
      const range = { rowStart: row, rowEnd: row + rows };
      const records = await reading(() =>
        parquetReadObjects({ ...{ file, metadata, columns: [...present], compressors: bounded }, ...range }),
      );
      if (records.length !== rows) {
        throw new UserError(
          "E_DATASET_READ",
          `${path}: rows ${row + 1} to ${row + rows} are missing: the file is damaged`,
        );
      }
      for (const value of records) yield { place: `row ${++row}`, value };
      onRead(Math.round((size * rows) / Math.max(1, Number(metadata.num_rows))));
    }
  } finally {
    closeSync(fd);
  }
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
  Object.entries(compressors).map(([name, unpack]) => [
    name,
    (input: Uint8Array, outputLength: number) => {
      if (!(outputLength >= 0 && outputLength <= largestPage)) {
        throw new Error(`a page of ${outputLength} bytes; the most that is read is 512 MiB`);
      }
      return unpack(input, outputLength);
    },
  ]),
);
