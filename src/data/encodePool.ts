/** Encoding on several threads: blocks come back in the order of the parts, whatever the number of threads. */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { invariant, UserError } from "../base/errors.ts";
import type { DocumentPart } from "./documentParts.ts";
import { encodeParts, type PartEncoder, type TokenBlock } from "./tokenBlocks.ts";

/** What a thread needs to know. */
export interface EncoderSetup {
  readonly tokenizerPath: string;
  /** Blocks say which tokens are to be predicted. */
  readonly masked: boolean;
  /** Documents are conversations, which the tokenizer's chat template writes. */
  readonly chat: boolean;
}

export interface EncodeJob {
  readonly parts: readonly DocumentPart[];
}

export interface EncodeReply {
  readonly block: TokenBlock;
  readonly tokenizerHash: string;
}

/** Characters that a thread gets at once: enough that sending them costs little. */
const jobLength = 1 << 19;
/** Threads that are started where nobody says how many: reading feeds about as many. */
const mostThreads = 8;
/** Starting a thread, with a tokenizer of its own, takes longer than encoding less. */
const bytesWorthThreads = 8 << 20;

/** How many threads encode `bytes` of files where -1 is asked for; 0: this one does. */
export function encodingThreads(asked: number, bytes: number): number {
  if (asked >= 0) return asked;
  const spare = availableParallelism() - 1;
  return bytes < bytesWorthThreads || spare < 1 ? 0 : Math.min(spare, mostThreads);
}

/**
 * @param here encodes as the threads do, which load the same from `setup`
 * @param threads 0: encodes on this thread
 * @throws UserError where the tokenizer at `tokenizerPath` is no longer the one that was loaded
 */
export async function* encodeDocuments(
  documents: AsyncIterable<DocumentPart>,
  here: PartEncoder,
  setup: EncoderSetup,
  threads: number,
): AsyncGenerator<TokenBlock> {
  if (threads === 0) {
    for await (const parts of jobs(documents)) yield encodeParts(parts, here);
    return;
  }
  const workers = Array.from({ length: threads }, () => encoder(setup));
  try {
    // Two jobs a thread: one that it does, one that waits. Their blocks are taken in order.
    const underWay: Promise<EncodeReply>[] = [];
    const next = async (): Promise<TokenBlock> => {
      const { block, tokenizerHash } = await underWay.shift()!;
      if (tokenizerHash === here.tokenizer.hash) return block;
      throw new UserError(
        "E_TOKENIZER",
        `tokenizer_path=${setup.tokenizerPath}: it was changed while text was encoded; start again`,
      );
    };
    let index = 0;
    for await (const parts of jobs(documents)) {
      const reply = workers[index++ % threads]!.encode({ parts });
      // A failure is told where its turn comes.
      reply.catch(() => {});
      underWay.push(reply);
      if (underWay.length >= 2 * threads) yield await next();
    }
    while (underWay.length > 0) yield await next();
  } finally {
    await Promise.all(workers.map(({ stop }) => stop()));
  }
}

async function* jobs(documents: AsyncIterable<DocumentPart>): AsyncGenerator<DocumentPart[]> {
  let parts: DocumentPart[] = [];
  let length = 0;
  for await (const part of documents) {
    parts.push(part);
    length += lengthOf(part);
    if (length < jobLength) continue;
    yield parts;
    [parts, length] = [[], 0];
  }
  if (parts.length > 0) yield parts;
}

function lengthOf(part: DocumentPart): number {
  if (part.kind === "part") return part.text.length;
  const { document } = part;
  if (document.kind === "text") return document.text.length;
  if (document.kind === "completion") return document.prompt.length + document.completion.length;
  return document.messages.reduce((sum, { content }) => sum + (typeof content === "string" ? content.length : 100), 0);
}

interface Encoder {
  encode(job: EncodeJob): Promise<EncodeReply>;
  stop(): Promise<unknown>;
}

/** One thread; its replies come in the order of its jobs. */
function encoder(setup: EncoderSetup): Encoder {
  const worker = startWorker(setup);
  const waiting: { resolve(reply: EncodeReply): void; reject(error: Error): void }[] = [];
  let failure: Error | undefined;
  const fail = (error: Error) => {
    failure ??= error;
    for (const { reject } of waiting.splice(0)) reject(failure);
  };
  worker.on("message", (reply: EncodeReply) => waiting.shift()!.resolve(reply));
  worker.on("error", fail);
  worker.on("exit", (code) => fail(new Error(`a thread that encodes text ended by itself (code ${code})`)));
  return {
    encode(job) {
      if (failure !== undefined) return Promise.reject(failure);
      worker.postMessage(job);
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    stop: () => worker.terminate(),
  };
}

/** In a clone the sources run without a build, as in tests: the thread then reads TypeScript through tsx, as its parent does. */
function startWorker(workerData: EncoderSetup): Worker {
  const here = import.meta.url;
  const ending = here.slice(here.lastIndexOf("."));
  invariant(ending === ".js" || ending === ".ts", `a module named ${here}`);
  const script = new URL(`./tokenizeWorker${ending}`, here);
  if (ending === ".js") return new Worker(script, { workerData });
  const load = `import("tsx/esm/api").then(({ register }) => { register(); return import(${JSON.stringify(script.href)}); })`;
  return new Worker(load, { eval: true, workerData });
}
