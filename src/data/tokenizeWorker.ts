/** A thread that encodes parts of documents for encodePool.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { loadChatTemplate } from "../tokenizers/chatFiles.ts";
import { loadTokenizer } from "../tokenizers/tokenizerFiles.ts";
import type { EncodeJob, EncodeReply, EncoderSetup } from "./encodePool.ts";
import { encodeParts } from "./tokenBlocks.ts";

const { tokenizerPath, masked, chat } = workerData as EncoderSetup;
const tokenizer = loadTokenizer(tokenizerPath);
const encoder = { tokenizer, masked, ...(chat && { template: loadChatTemplate(tokenizerPath) }) };

parentPort!.on("message", ({ parts }: EncodeJob) => {
  const block = encodeParts(parts, encoder);
  const reply: EncodeReply = { block, tokenizerHash: tokenizer.hash };
  const memory = [block.tokens, block.ends, block.draws, ...(block.mask ? [block.mask] : [])];
  parentPort!.postMessage(
    reply,
    memory.map(({ buffer }) => buffer as ArrayBuffer),
  );
});
