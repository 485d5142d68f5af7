from __future__ import annotations

import io
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from k3prof.core.device import Device, DeviceKind
from k3prof.reporters.palette import device_colour
from k3prof.reporters.timeline_data import timeline
from k3prof.reporters.timeline_png import as_png, as_svg
from tests.doubles.trials import failed_trial, gpu_trial, million_sample_trial, stand_in_trial


def pixels(drawn) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(as_png(drawn))).convert("RGB")).astype(int)


def close_to(image, colour: str) -> np.ndarray:
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return np.abs(image - wanted).max(axis=2) < 12


@pytest.mark.parametrize("trial", [stand_in_trial, gpu_trial, failed_trial])
def test_a_picture_is_a_small_png_of_readme_width(trial):
    png = as_png(timeline(*trial()))
    assert Image.open(io.BytesIO(png)).size[0] == 1400
    assert len(png) < 100_000


def test_equal_timelines_give_equal_bytes():
    first, second = (as_svg(timeline(*stand_in_trial())) for _ in range(2))
    assert first == second
    assert b"<dc:date>" not in first


def test_an_svg_is_well_formed_and_refers_to_nothing_outside():
    root = ElementTree.fromstring(as_svg(timeline(*stand_in_trial("<script>&amp;]]>"))))
    references = [value for one in root.iter() for name, value in one.attrib.items() if name.endswith("href")]
    assert references
    assert all(value.startswith("#") for value in references)
    assert not [one for one in root.iter() if one.tag.endswith("script")]


def test_up_close_one_device_is_drawn_at_a_time():
    image = pixels(timeline(*stand_in_trial()))
    lower = image[370:]
    columns = [close_to(lower, device_colour(DeviceKind.STAND_IN, i)).sum(axis=0) for i in range(3)]
    # A device's column is full where it alone worked in those 5 ms: then the other two lanes are empty.
    full = [column > 22 for column in columns]
    assert all(one.sum() > 50 for one in full)
    assert not (full[0] & full[1]).any()
    assert not (full[1] & full[2]).any()
    assert not (full[0] & full[2]).any()


def test_the_order_of_the_turns_can_be_read_from_left_to_right():
    image = pixels(timeline(*stand_in_trial()))[370:]
    area = [close_to(image, device_colour(DeviceKind.STAND_IN, i)).sum(axis=0) for i in range(3)]
    token = slice(225, 338)
    centres = [np.average(np.arange(113), weights=one[token]) for one in area]
    assert centres == sorted(centres)


def test_the_names_of_unobserved_devices_stay_and_their_lanes_are_empty():
    image = pixels(timeline(*failed_trial()))
    for i in range(3):
        assert not close_to(image, device_colour(DeviceKind.STAND_IN, i)).any()


def test_names_are_never_read_as_formulas(recwarn):
    for name in ("$x^2$", "$\\frac{", "模型", "a" * 500, "\x1b[31m\x00", ""):
        assert as_png(timeline(*stand_in_trial(name, repeat=1)))
    assert not [one for one in recwarn if "Glyph" in str(one.message)]


def test_fifteen_devices_are_drawn_below_each_other():
    devices = tuple(Device(f"RPC{i}", DeviceKind.STAND_IN) for i in range(15))
    drawn = timeline(*stand_in_trial(turns_ms=[1.5] * 15, devices=devices, repeat=1))
    assert pixels(drawn).shape[0] > 1000


def test_a_million_samples_give_a_picture_as_small_as_any():
    trial, series = million_sample_trial()
    assert sum(one.time_ns.size for one in series) >= 4_000_000
    drawn = timeline(trial, series)
    assert len(as_png(drawn)) < 100_000
    assert len(as_svg(drawn)) < 500_000


def test_a_trial_of_no_length_is_drawn():
    trial, _ = failed_trial()
    assert as_png(timeline(replace(trial, ended_ns=trial.started_ns), ()))
