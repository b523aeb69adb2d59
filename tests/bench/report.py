"""Prints the rows of benchmark tables, keeps them for a JSON file, remembers what was wrong."""

import dataclasses
import json
import traceback

import torch

OURS = "attnd"


def versions():
    return dict(
        device=torch.cuda.get_device_name(0),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        cudnn=torch.backends.cudnn.version(),
    )


class Report:
    """A table is a list of rows, a row a dictionary of figures."""

    def __init__(self, path, **facts):
        self._path = path
        self._facts = facts
        self._tables = {}
        self.wrong = []

    def add(self, table, problem, row, text, **figures):
        """problem: a Problem, or words. text: the figures to read, printed after it."""
        label = str(problem)
        clock = f"{row.sm_clock_mhz} MHz" if row.sm_clock_mhz is not None else "clock unknown"
        gaps = ", ".join(f"{name} {result.difference:.1e}" for name, result in row.timed.items()
                         if result.difference is not None)
        print(f"{label:47} {text}  | {clock} | differences: {gaps or 'none taken'}")
        for name, result in row.results.items():
            if result.refusal is not None:
                print(f"    {name} left out: {result.refusal}")
        self._flag(table, label, row)
        contenders = {name: result.figures() for name, result in row.results.items()}
        if dataclasses.is_dataclass(problem):
            figures["problem"] = dataclasses.asdict(problem)
        self._tables.setdefault(table, []).append(
            dict(label=label, **figures, sm_clock_mhz=row.sm_clock_mhz, contenders=contenders))

    def _flag(self, table, label, row):
        """A wrong output, and a refusal by the library under test, must not pass unseen."""
        faults = [f"{name} is off by {row.results[name].difference}" for name in row.wrong]
        faults += [f"{name} refused" for name, result in row.results.items()
                   if name.startswith(OURS) and result.refusal is not None]
        for fault in faults:
            print(f"    !!!!!!!! WRONG: {fault} !!!!!!!!")
            self.wrong.append(f"{table}: {label}: {fault}")

    def fill(self, table, function, *arguments):
        """Calls function(*arguments), which adds a table's rows. Where it raises, that is one more
        thing wrong; what was measured until then stays, and is written, as other tables will be."""
        try:
            function(*arguments)
        except Exception as error:
            traceback.print_exc()
            self.wrong.append(f"{table}: broke off: {type(error).__name__}: {error}")
        self.write()

    def write(self):
        if self._path:
            with open(self._path, "w") as file:
                json.dump(dict(self._facts, wrong=self.wrong, **self._tables), file, indent=1)

    def finish(self):
        """Writes the file, repeats what was wrong; returns the exit status."""
        self.write()
        for fault in self.wrong:
            print(f"WRONG: {fault}")
        print(f"{sum(map(len, self._tables.values()))} rows, {len(self.wrong)} wrong")
        return 1 if self.wrong else 0
