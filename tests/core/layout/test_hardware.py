from __future__ import annotations

import pytest

from k3prof.core.layout.hardware import DATASHEETS, Bandwidth, parse_bandwidth
from k3prof.errors import ConfigError

# Bus width in bits and data rate per pin in Gbit/s, from the makers' tables of memory clocks.
GDDR = {"A40": (384, 14.5), "RTX 3090": (384, 19.5), "RTX 4090": (384, 21), "L40S": (384, 18)}


@pytest.mark.parametrize("name", GDDR)
def test_a_datasheets_bandwidth_is_bus_width_times_data_rate(name):
    device = next(device for device in DATASHEETS if device.name == name)
    width, rate = GDDR[name]
    assert device.gb_per_s == width * rate / 8
    assert device.origin == "datasheet"


@pytest.mark.parametrize("text", ["A40", "a40", "rtx 4090", "RTX4090", "h100sxm"])
def test_gpus_are_found_however_their_names_are_written(text):
    assert parse_bandwidth(text) in DATASHEETS


def test_a_number_is_a_bandwidth_in_gb_per_s():
    assert parse_bandwidth("560.5") == Bandwidth("560.5 GB/s", 560.5, "given")


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("0", "must be above 0", ""),
        ("-1", "must be above 0", ""),
        ("nan", "must be above 0", ""),
        ("inf", "must be above 0", ""),
        ("A4O", "neither a number nor a GPU", "did you mean A40?"),
        ("a potato", "neither a number nor a GPU", "one of A40"),
    ],
)
def test_what_is_no_bandwidth_is_refused(text, said, hint):
    with pytest.raises(ConfigError) as caught:
        parse_bandwidth(text)
    assert said in caught.value.message
    assert hint in caught.value.hint
