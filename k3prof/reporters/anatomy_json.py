"""A model's anatomy as plain data: units in the keys, null for what is not known, nothing rounded."""

from __future__ import annotations

from collections import Counter
from typing import Any

from k3prof.core.weights.anatomy import Anatomy, RoleShare, TrunkVariant

FORMAT_VERSION = 1


def as_json(anatomy: Anatomy) -> dict[str, Any]:
    """Return what `json.dumps` takes."""
    model, geometry, forward = anatomy.model, anatomy.model.geometry, anatomy.forward
    return {
        "format_version": FORMAT_VERSION,
        "model": {
            "architecture": model.architecture,
            "name": model.name or None,
            "files": [{"path": shard.path, "size_bytes": shard.size_bytes} for shard in model.shards],
            "tensors": len(model.tensors),
            "weight_bytes": model.n_bytes,
            "parameters": model.parameters,
            "active_parameters": anatomy.active_parameters,
            "layers": geometry.trunk_layers,
            "mtp_layers": len(geometry.layers) - geometry.trunk_layers,
            "layers_by_attention": dict(Counter(str(layer.attention) for layer in geometry.layers if not layer.mtp)),
            "embedding_length": geometry.embedding_length,
            "context_length": geometry.context_length,
            "experts": geometry.experts,
            "experts_used": anatomy.experts_used,
            "kv_bytes_per_token": model.kv_bytes_per_token(forward.cache_type_k, forward.cache_type_v),
            "state_bytes_per_sequence": model.state_bytes_per_sequence,
        },
        "pass": {
            "tokens": forward.tokens,
            "sequences": forward.sequences,
            "depth": forward.depth,
            "cache_type_k": forward.cache_type_k,
            "cache_type_v": forward.cache_type_v,
            "weights_read_bytes": anatomy.weight_bytes,
            "kv_read_and_written_bytes": anatomy.kv_bytes,
            "state_read_and_written_bytes": anatomy.state_bytes,
            "total_bytes": anatomy.total_bytes,
        },
        "roles": [_role(share) for share in anatomy.shares],
        "ceilings": [_ceiling(anatomy, variant) for variant in anatomy.variants],
    }


def _role(share: RoleShare) -> dict[str, Any]:
    return {
        "role": str(share.role),
        "parameters": share.n_elements,
        "file_bytes": share.n_bytes,
        "bytes_by_format": dict(share.type_bytes),
        "bits_per_weight": share.bits_per_weight,
        "read_bytes": share.read_bytes,
    }


def _ceiling(anatomy: Anatomy, variant: TrunkVariant) -> dict[str, Any]:
    return {
        "trunk_format": variant.type_name,
        "trunk_bytes": variant.trunk_bytes,
        "read_bytes": variant.read_bytes,
        "caches_counted": anatomy.caches is not None,
        "devices": [
            {
                "name": device.name,
                "bandwidth_gb_per_s": device.gb_per_s,
                "origin": device.origin,
                "ceiling_tok_per_s": variant.tokens_per_s(device, anatomy.forward.tokens),
            }
            for device in anatomy.bandwidths
        ],
    }
