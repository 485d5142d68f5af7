from __future__ import annotations

from dataclasses import replace

from k3prof.core.evidence.check import Agreement
from k3prof.core.evidence.explanation import hold_against_header
from k3prof.core.evidence.loaded import LoadedServer, ModelFacts
from tests.doubles.tiny_models import experts

FACTS = ModelFacts(architecture="qwen3", layers=2, context_trained=512, experts=8, experts_used=2)


def test_the_log_of_the_same_model_agrees_with_its_header() -> None:
    checks = hold_against_header(LoadedServer(model=FACTS), experts())
    assert {check.name: check.asked for check in checks} == {
        "architecture": experts().architecture,
        "layers": "2",
        "experts": "8",
        "experts used": "2",
    }
    same = LoadedServer(model=replace(FACTS, architecture=experts().architecture))
    assert {check.agreement for check in hold_against_header(same, experts())} == {Agreement.SAME}


def test_the_log_of_another_model_differs_where_it_does() -> None:
    other = LoadedServer(model=replace(FACTS, architecture=experts().architecture, experts=16))
    differing = [check for check in hold_against_header(other, experts()) if check.agreement is Agreement.DIFFERS]
    assert [(check.name, check.asked, check.done) for check in differing] == [("experts", "8", "16")]


def test_what_the_log_does_not_say_is_unknown() -> None:
    assert {check.agreement for check in hold_against_header(LoadedServer(), experts())} == {Agreement.UNKNOWN}


def test_an_overridden_key_is_not_held_against_the_header() -> None:
    changed = replace(FACTS, experts_used=1, overrides={"qwen3.expert_used_count": "1"})
    assert "experts used" not in {check.name for check in hold_against_header(LoadedServer(model=changed), experts())}
