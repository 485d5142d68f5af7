"""A profile of a Python program: stacks of functions, sampled at a steady rate."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

_Function = tuple[str, str | None]


@dataclass(frozen=True)
class Frame:
    """A line of Python in a stack.

    Attributes:
        name: The function, with its class where py-spy knows it: `Llama.eval`.
        file: Where it stands; None for what is in no file.
        line: The line that was running, or called what was.
    """

    name: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class ThreadSamples:
    """What one thread was seen doing.

    Attributes:
        name: Its name, with its process and number.
        stacks: One per sample: places in the profile's frames, the outermost first. Idle moments leave no sample.
        weights_s: The time that each sample stands for.
    """

    name: str
    stacks: tuple[tuple[int, ...], ...]
    weights_s: tuple[float, ...]


@dataclass(frozen=True)
class FunctionShare:
    """How much of the time a function was running, all threads together.

    Attributes:
        name: The function.
        file: Where it stands.
        frac: Share of the busy time in which it was on a stack.
        own_frac: Share in which it was the innermost: Python's own work, and libraries that it calls.
    """

    name: str
    file: str | None
    frac: float
    own_frac: float


@dataclass(frozen=True)
class PythonProfile:
    """What a program was seen doing.

    Attributes:
        frames: Every line that was seen.
        threads: One per thread that was ever busy.
        failed_samples: Looks that showed nothing, since the program went on meanwhile; None when that was not told.
    """

    frames: tuple[Frame, ...]
    threads: tuple[ThreadSamples, ...]
    failed_samples: int | None = None

    @property
    def samples(self) -> int:
        """How many stacks were seen."""
        return sum(len(thread.stacks) for thread in self.threads)

    @property
    def busy_s(self) -> float:
        """Time in which threads were busy, added up over threads."""
        return sum(sum(thread.weights_s) for thread in self.threads)

    def functions(self) -> list[FunctionShare]:
        """Return what each function took, the most first; nothing when the program was idle."""
        whole_s: dict[_Function, float] = defaultdict(float)
        own_s: dict[_Function, float] = defaultdict(float)
        for thread in self.threads:
            for stack, weight_s in zip(thread.stacks, thread.weights_s, strict=True):
                running = [(self.frames[place].name, self.frames[place].file) for place in stack]
                # One that calls itself runs once.
                for function in dict.fromkeys(running):
                    whole_s[function] += weight_s
                for function in running[-1:]:
                    own_s[function] += weight_s
        busy_s = self.busy_s
        most_first = sorted(whole_s, key=lambda function: -whole_s[function])
        return [FunctionShare(*one, frac=whole_s[one] / busy_s, own_frac=own_s[one] / busy_s) for one in most_first]
