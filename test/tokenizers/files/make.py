"""Small tokenizers of every kind and the ids that the reference (Hugging Face's `tokenizers`, 0.23.3) gives.

Writes KIND.json beside this file: {"tokenizer": a tokenizer.json, "cases": [{text, ids, idsWithControl, decoded}]}.
sentencepiece-model.json has SentencePiece's own file and ids (sentencepiece 0.2.3): {"model": base64, "cases": [{text, ids, decoded}]}.
Run with: python make.py
Two of the trainers (Unigram, WordPiece) give another vocabulary each time.
"""
import json
import sys
from pathlib import Path
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "the old house by the sea had two doors and seven windows, and the sea had none",
    "we'll see what they've said; it's 1234567 and 89, or 3.14!",
    "naïve café façade, übermäßig größer, déjà vu",
    "नमस्ते दुनिया। यह एक परीक्षण है",
    "on the sea, on the shore, in the house, at the door",
    "she said: see the sea",
] * 3

TEXTS = [
    "", "a b", " a", "a", "  a  b ", "the sea", " the sea\n\nthe house", "we'll they've I'D", "1234567", "12 345,6.7",
    "\r\n\n  x", "\t\ttabs", "नमस्ते दुनिया", "cafe\u0301 nai\u0308ve", "naïve café", "🦙 ďábel 똻", "日本語", "日 本",
    "a\u0085b\u00a0c\ufeffd", "²³½", "x²", "a<|end|>b", "<|end|>the sea", "the  <mask>  sea", "<user>the sea", "x<user>y",
    "the theword the", "Don't STOP!!! (now)", "a_b-c/d", "▁the▁sea", "the<0x41>sea", "I\u0130ıſK", "ΟΔΟΣ", "\ufffd", "end.\n",
    "the old house by the sea had two doors and seven windows", "...", "a..b", "!?", "the\u3000sea",
]

EXTRA = [AddedToken("<user>", special=False, normalized=False), AddedToken("<mask>", special=False, normalized=True, lstrip=True, rstrip=False),
         AddedToken("theword", special=False, normalized=True, single_word=True)]


def bpe(**options):
    return Tokenizer(models.BPE(**options))


def build(name, tokenizer, trainer):
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(EXTRA)
    save(name, tokenizer)


def raw_tokenizer(tokenizer):
    """The same without its control tokens: what raw text is to be encoded with."""
    data = json.loads(tokenizer.to_str())
    control = {token["content"] for token in data["added_tokens"] if token["special"]} - {data["model"].get("unk_token")}
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] not in control]
    vocab = data["model"]["vocab"]
    hidden = lambda token: f"\0{token}" if token in control else token
    if isinstance(vocab, list):
        data["model"]["vocab"] = [[hidden(token), score] for token, score in vocab]
    else:
        data["model"]["vocab"] = {hidden(token): id for token, id in vocab.items()}
    return Tokenizer.from_str(json.dumps(data))


def save(name, tokenizer, texts=TEXTS, vocabulary=True):
    cases = []
    without_control = raw_tokenizer(tokenizer)
    for text in texts:
        ids = without_control.encode(text, add_special_tokens=False).ids
        with_control = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids, "idsWithControl": with_control,
                      "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    data = {**({"tokenizer": json.loads(tokenizer.to_str())} if vocabulary else {}), "cases": cases}
    lines = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    (Path(__file__).parent / f"{name}.json").write_text(lines + "\n")


def bpe_trainer(size, alphabet=(), special=("<|end|>",)):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), initial_alphabet=list(alphabet), show_progress=False)


BYTES = pre_tokenizers.ByteLevel.alphabet()
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]

for scheme in ("never", "first", "always"):
    t = bpe(unk_token="<unk>")
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    t.decoder = decoders.Metaspace(prepend_scheme=scheme)
    build(f"metaspace-{scheme}", t, bpe_trainer(160, special=("<unk>", "<|end|>")))

# SentencePiece's BPE with byte fallback, as Llama 2's files have it.
t = bpe(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # for training only: words are not joined
t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
t.train_from_iterator(CORPUS, bpe_trainer(420, special=("<unk>", "<|end|>", *BYTE_TOKENS)))
data = json.loads(t.to_str())
data["pre_tokenizer"] = None
data["added_tokens"] = [token for token in data["added_tokens"] if not token["content"].startswith("<0x")]
t = Tokenizer.from_str(json.dumps(data))
t.add_tokens(EXTRA)
save("sentencepiece-bpe", t)

t = Tokenizer(models.Unigram())
t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
t.pre_tokenizer = pre_tokenizers.Metaspace()
t.decoder = decoders.Metaspace()
build("unigram", t, trainers.UnigramTrainer(vocab_size=150, special_tokens=["<unk>", "<|end|>"], unk_token="<unk>", show_progress=False))

t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
t.normalizer = normalizers.BertNormalizer()
t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
t.decoder = decoders.WordPiece(cleanup=False)
build("wordpiece", t, trainers.WordPieceTrainer(vocab_size=150, special_tokens=["[UNK]", "<|end|>"], show_progress=False))

# Byte-level with digits cut one by one before GPT-2's pattern, as SmolLM's files have it.
t = bpe()
t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
t.decoder = decoders.ByteLevel()
build("bytelevel-digits", t, bpe_trainer(360, BYTES))

# GPT-2's with a space put before every text.
t = bpe()
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
t.decoder = decoders.ByteLevel()
build("bytelevel-prefix", t, bpe_trainer(340, BYTES))

# Cuts that only Split's other behaviours make.
t = bpe(unk_token="<unk>")
t.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(" ", "merged_with_previous"), pre_tokenizers.Split(",", "merged_with_next"),
    pre_tokenizers.Split("s", "contiguous"), pre_tokenizers.Punctuation("contiguous"),
])
t.decoder = decoders.Fuse()
build("splits", t, bpe_trainer(150, special=("<unk>", "<|end|>")))

t = bpe(unk_token="<unk>")
t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False)])
t.decoder = decoders.Fuse()
build("whitespace", t, bpe_trainer(150, special=("<unk>", "<|end|>")))

# SentencePiece's own files, trained as Llama 2's (spaces before words, one of them before a text) and as Gemma's (none before
# a text, symbols of the user's): identity, byte fallback, one digit a piece.
def piece_file(name, **options):
    import base64
    import io
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=420, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, num_threads=1,
        allow_whitespace_only_pieces=True, minloglevel=2, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    cases = [{"text": text, "ids": processor.encode(text), "decoded": processor.decode(processor.encode(text))} for text in TEXTS]
    data = {"model": base64.b64encode(model.getvalue()).decode(), "cases": cases}
    (Path(__file__).parent / f"{name}.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")


piece_file("sentencepiece-model")
piece_file("sentencepiece-model-symbols", user_defined_symbols=["<user>", "\n\n"], add_dummy_prefix=False)

# Llama 3's: the ids alone (`python make.py LLAMA3_TOKENIZER_JSON`); the vocabulary is fetched by the tests.
if len(sys.argv) > 1:
    t = Tokenizer.from_file(sys.argv[1])
    save("llama3", t, [text.replace("<|end|>", "<|eot_id|>") for text in TEXTS] + [" Việt", "Hello world!", "naïve café 🦙 <|eot_id|>"], vocabulary=False)
