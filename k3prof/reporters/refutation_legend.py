"""What a stranger has to know to read a report on hypotheses: terms, and what they mean."""

from __future__ import annotations

READING = (
    (
        "Hypothesis",
        "A claim, and what would be measured if it were true, written down first. The hash beside it changes with "
        "anything that could change the verdict; a verdict on an earlier form is shown struck through.",
    ),
    (
        "Block",
        "Both placements run twice, in mirrored order (A B B A or B A A B), each time on a freshly started server, so "
        "that a machine that slowly gets hotter or busier favours neither. A block gives one ratio: one dot in the "
        "picture, the first at the top, hollow when it was measured but not yet judged. Where one placement is held "
        "against a limit, a block is the mean of its two runs.",
    ),
    (
        "Interval",
        "The bar, and the figures in brackets: where the true value lies, as far as the scatter between blocks can "
        "tell. Intervals made this way hold it nine times in ten. The diamond on the bar is the mean over blocks.",
    ),
    (
        "Rule",
        "Supported: the whole interval lies at or beyond the predicted end that is nearest to no effect. Refuted: the "
        "whole interval falls short of it. Anything else is inconclusive. A prediction around 1 claims that there is "
        "no effect: supported when the whole interval lies within it, refuted when all of it lies outside.",
    ),
    (
        "Chance",
        "Many claims, looked at several times each, would find something by chance alone. So p, how often chance alone "
        "gives a result this clear, must also be below a level that is shared out over all claims and looks: then the "
        "whole set holds a wrong verdict at most as often as was fixed beforehand.",
    ),
    (
        "Limit",
        "A placement held against a limit has no second one beside it in which a drift of the machine would cancel. "
        "Its interval, and its share of the chance above, hold only while such drift is small beside the distance to "
        "the limit.",
    ),
    (
        "A/A",
        "One placement run against itself, before all else. Where that alone differs by more than what matters, no "
        "comparison is judged. Its blocks are the last row of a picture.",
    ),
)
