/**
 * Tokenizers: text in, ids out, and conversations by a model's chat template.
 * A new kind implements `Tokenizer` and is chosen in tokenizerFiles.ts.
 */
export { type BpeModel, bpeTokenizer } from "./bpeTokenizer.ts";
export { smallestVocab, type TrainBpeOptions, trainBpe, trainedEos } from "./bpeTrainer.ts";
export { byteTokenizer } from "./byteTokenizer.ts";
export {
  assistantSpans,
  type ChatExample,
  type ChatExampleOptions,
  chatExample,
  exampleDate,
} from "./chatExample.ts";
export { type ChatTemplateChoice, findChatTemplate, loadChatTemplate } from "./chatFiles.ts";
export {
  type ChatMessage,
  type ChatTemplate,
  compileChatTemplate,
  type RenderOptions,
  renderChat,
  type TextSpan,
} from "./chatTemplate.ts";
export type { Frame } from "./frame.ts";
export { type TokenizerFiles, tokenizerOfGguf } from "./ggufTokenizer.ts";
export { type DecodeOptions, type EncodeOptions, streamDecoder, type Tokenizer, textBytes } from "./tokenizer.ts";
export { copyTokenizer, loadTokenizer, saveTokenizer, tokenizerFormat } from "./tokenizerFiles.ts";
export { parseTokenizerJson, toTokenizerJson } from "./tokenizerJson.ts";
