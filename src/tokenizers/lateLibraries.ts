/** Libraries that most starts need nothing of: loaded when they are first asked for. */
import { createRequire } from "node:module";
import type * as Jinja from "@huggingface/jinja";
import type * as Tokenizers from "@huggingface/tokenizers";

const require = createRequire(import.meta.url);

/** What runs chat templates. */
export const jinja = (): typeof Jinja => require("@huggingface/jinja");

/** What reads the kinds of tokenizers that have no code of their own here. */
export const libraryTokenizers = (): typeof Tokenizers => require("@huggingface/tokenizers");
