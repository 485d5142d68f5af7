"""An op profile as plain data: units in the keys, null for what is not known, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from k3prof.core.ops.op_profile import CONFIDENCE, OpProfile, OpReport, Share

FORMAT_VERSION = 1


def as_json(report: OpReport) -> dict[str, Any]:
    """Return what `json.dumps` takes."""
    model, build, request = report.model, report.build, report.request
    return {
        "format_version": FORMAT_VERSION,
        "model": {
            "architecture": model.architecture,
            "name": model.name or None,
            "files": [shard.path for shard in model.shards],
            "overrides": dict(request.overrides),
        },
        "build": {"name": build.name, "version": build.version, "commit": build.commit, "identity": build.identity},
        "mode": str(request.timing),
        "threads": request.threads,
        "confidence": CONFIDENCE,
        "passes": [_profile(profile) for profile in report.profiles],
    }


def _profile(profile: OpProfile) -> dict[str, Any]:
    record = profile.record
    return {
        "kind": record.kind,
        "tokens_per_pass": record.tokens,
        "depth": record.depth,
        "passes": len(record.by_stretch.whole_ns),
        "devices": list(profile.devices),
        "shares": {
            "by_part": _shares(profile.by_part),
            "by_layer": _shares(profile.by_layer),
            "by_role": None if profile.by_role is None else _shares(profile.by_role),
            "by_op": None if profile.by_op is None else _shares(profile.by_op),
        },
        "distortion": asdict(profile.distortion),
    }


def _shares(shares: Sequence[Share]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            **({"kind": one.about} if one.about else {}),
            "share_frac": one.frac,
            "low_frac": one.low,
            "high_frac": one.high,
            "most_gain": one.most_gain,
        }
        for one in shares
    ]
