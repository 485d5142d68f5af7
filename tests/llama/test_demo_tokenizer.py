from __future__ import annotations

from k3prof.llama.demo_tokenizer import demo_vocabulary


def test_tokens_have_the_ids_that_gpt_2_gives_them() -> None:
    tokens = demo_vocabulary().tokens
    known = {0: "!", 64: "a", 198: "Ċ", 220: "Ġ", 257: "Ġa", 262: "Ġthe", 286: "Ġof", 290: "Ġand", 318: "Ġis"}
    assert {token: tokens[token] for token in known} == known


def test_every_token_is_a_byte_a_merge_of_earlier_ones_or_control() -> None:
    vocabulary = demo_vocabulary()
    tokens = vocabulary.tokens
    assert len(tokens) == len(set(tokens)) == len(vocabulary.types) == 1024
    for token, merge in enumerate(vocabulary.merges, start=256):
        left, right = merge.split(" ")
        assert tokens[token] == left + right
        assert max(tokens.index(left), tokens.index(right)) < token
    assert tokens[vocabulary.eos] == "<|im_end|>"
    assert tokens[vocabulary.bos] == "<|endoftext|>"


def test_only_printable_ascii_counts_as_plain_text() -> None:
    vocabulary = demo_vocabulary()
    plain = {token for index, token in enumerate(vocabulary.tokens) if vocabulary.is_plain_text(index)}
    assert {"a", "Ġ", "Ġthe", "~"} <= plain
    assert plain.isdisjoint({"Ċ", "é", "âĢ", "<|im_end|>"})
    assert len(plain) > 800
