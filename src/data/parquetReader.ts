/** The process of parquetProcess.ts. */
import { openParquet, type ParquetFile } from "./parquetFile.ts";
import type { ParquetJob, ParquetMessage } from "./parquetProcess.ts";

/** Of one message. */
const mostRows = 1024;

/** The file that was read last: its groups are asked for one by one. */
let open: { readonly path: string; readonly file: ParquetFile } | undefined;

const send = (message: ParquetMessage): unknown => process.send!(message);

async function reply({ path, rows: asked }: ParquetJob): Promise<void> {
  if (asked === undefined || open?.path !== path) {
    open?.file.close();
    open = undefined;
    open = { path, file: await openParquet(path) };
  }
  const { file } = open;
  if (asked === undefined) {
    send({ kind: "parts", parts: { columns: file.columns, groups: file.groups } });
    return;
  }
  const rows = await file.rowsOf(asked.group, asked.columns);
  for (let begin = 0; begin === 0 || begin < rows.length; begin += mostRows) {
    const end = begin + mostRows;
    send({ kind: "rows", rows: rows.slice(begin, end), last: end >= rows.length });
  }
}

process.on("message", (job: ParquetJob) => {
  reply(job).catch((error: unknown) =>
    send({ kind: "failure", reason: error instanceof Error ? error.message : String(error) }),
  );
});
process.on("disconnect", () => process.exit());
// A terminal sends it to both: the parent decides.
process.on("SIGINT", () => {});
