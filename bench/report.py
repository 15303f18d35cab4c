"""The file of figures of one machine, and the groups that fill it within a time.

{"device": ..., "date": ..., "figures": {name: {"value": number, ...}}, "groups": {name: when and how it was measured},
"faults": {what: why it was not measured}}. A figure with a date of its own is of an earlier day.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

DEVICE_LOST = 3  # exit status: the rest needs a new process
FOREVER = 1e9


class OutOfTime(BaseException):
    """Raised in a group that takes longer than it may: no guard of a figure holds it."""


class Report:
    def __init__(self, path: pathlib.Path, device: dict[str, Any]) -> None:
        self.path = path
        self.data: dict[str, Any] = {"figures": {}, "groups": {}}
        if path.exists():
            self.data |= json.loads(path.read_text())
        self.data |= {"device": device, "date": datetime.date.today().isoformat()}

    def add(self, name: str, value: float, **details: Any) -> None:
        self.data["figures"][name] = {"value": value, **details}
        shown = {key: detail for key, detail in details.items() if key != "shapes"}
        print(f"{name:44s} {value:10.4f}  {shown}", flush=True)
        self.save()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.data, indent=1, sort_keys=True) + "\n")

    def took(self, group: str) -> float:
        """Seconds of its last measurement; 0 where there was none."""
        return float(self.data["groups"].get(group, {}).get("seconds", 0.0))

    def begin(self, group: str) -> None:
        """Forgets what the group gave before."""
        known = self.data["groups"].get(group, {})
        for kind in ("figures", "faults"):
            for name in known.get(kind, []):
                self.data.get(kind, {}).pop(name, None)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.data["groups"][group] = {"at": now, "seconds": self.took(group), "fault": "the program ended in it"}
        self.save()

    def end(self, group: str, seconds: float, fault: str, before: Mapping[str, Any]) -> None:
        """`before`: the figures and the faults that were there when it began."""
        record = self.data["groups"][group]
        record["seconds"] = round(seconds, 1)
        for kind, known in before.items():
            record[kind] = sorted(name for name, what in self.data.get(kind, {}).items() if known.get(name) is not what)
        record.pop("fault")
        if fault:
            record["fault"] = fault
        self.save()


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raises OutOfTime in what takes longer."""

    def stop(number: int, frame: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, FOREVER))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def run_groups(
    report: Report,
    groups: Mapping[str, Callable[[], None]],
    seconds: float = FOREVER,
    alive: Callable[[], bool] = lambda: True,
    tidy: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    limit: Callable[[float], contextlib.AbstractContextManager[None]] = stopped_after,
) -> int:
    """One after the other; what took longer than is left when it was last measured is not begun. What fails costs its
    own figures alone; DEVICE_LOST where nothing after it can run. `tidy` gives back what a group held."""
    until = clock() + seconds
    first = True
    for name, measure in groups.items():
        begin = clock()
        room = until - begin
        if room <= 0 or (room < report.took(name) and not first):
            print(f"-- {name}: left out, {max(room, 0):.0f} s were left", flush=True)
            continue
        first = False
        print(f"-- {name}", flush=True)
        report.begin(name)
        before = {kind: dict(report.data.get(kind, {})) for kind in ("figures", "faults")}
        fault = ""
        try:
            with limit(room):
                measure()
        except OutOfTime:
            fault = f"stopped after {clock() - begin:.0f} s: out of time"
        except (Exception, SystemExit) as error:
            fault = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        report.end(name, clock() - begin, fault, before)
        print(f"-- {name}: {clock() - begin:.0f} s{'; ' if fault else ''}{fault}", flush=True)
        if fault and not alive():
            print("-- the device is lost to this process", flush=True)
            return DEVICE_LOST
        tidy()
    return 0
