/** Parquet files: a record a row, a row group in memory at a time. */
import { statSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import type { FileBytesOptions } from "./fileBytes.ts";
import { giveBack, type ParquetJob, takeProcess } from "./parquetProcess.ts";
import type { ReadRecord } from "./records.ts";

export interface ParquetOptions extends FileBytesOptions {
  /** Seconds that a part may take, beside those for its size. Default: 60. */
  readonly patience?: number;
}

/** For each megabyte of the file: what the slowest codec takes ten times over. */
const secondsEach = 1;

/**
 * @param columns those that are wanted; of them, rows have those that the file has
 * @throws UserError where the file can't be read or is no Parquet file
 */
export async function* parquetRows(
  path: string,
  columns: readonly string[],
  { onRead = () => {}, patience = 60 }: ParquetOptions = {},
): AsyncGenerator<ReadRecord> {
  const fail = (reason: string, cause?: unknown): never => {
    throw new UserError("E_DATASET_READ", `${path}: can't be read as Parquet (${reason})`, { cause });
  };
  let size: number;
  try {
    size = statSync(path).size;
  } catch (error) {
    return fail((error as Error).message, error);
  }
  const reader = takeProcess(size);
  const ask = (job: ParquetJob, bytes: number) =>
    reader.ask(job, patience + (secondsEach * bytes) / 1e6).catch((error: Error) => fail(error.message, error));
  try {
    const { columns: names, groups } = (await ask({ path }, 0)).parts!;
    const present = columns.filter((column) => names.includes(column));
    if (present.length === 0) {
      throw new UserError(
        "E_DATASET_COLUMN",
        `${path}: no column is named ${columns.join(" or ")}; it has ${names.join(", ")}: set train_data_columns`,
      );
    }
    const all = groups.reduce((sum, { rows }) => sum + rows, 0);
    let row = 0;
    for (const [group, { rows: count, bytes }] of groups.entries()) {
      const { rows } = await ask({ path, rows: { group, columns: present } }, bytes);
      for (const value of rows) {
        const place = `row ${++row}`;
        yield typeof value === "string" ? { place, problem: value } : { place, value };
      }
      onRead(Math.round((size * count) / Math.max(1, all)));
    }
  } finally {
    giveBack(reader);
  }
}
