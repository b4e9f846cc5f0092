"""Checks the schedules FOLDER/NAME-P-M.csv with PyTorch, and writes its own there as torch-NAME-P-M.csv."""

import csv
import glob
import os
import sys

from torch.distributed.pipelining import schedules as S


def read(path):
    with open(path, newline="", encoding="ascii") as f:
        return {rank: [S._Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(f))}


def check(path):
    _, p, m = os.path.basename(path)[:-4].rsplit("-", 2)
    p, m = int(p), int(m)
    actions = read(path)
    stages = 1 + max(action.stage_index for order in actions.values() for action in order)
    rank_of = S._validate_schedule(actions, p, stages, m)
    with_messages = S._add_send_recv(actions, lambda stage: rank_of[stage], stages)
    S._simulate_comms_compute(with_messages, lambda stage: rank_of[stage], stages)


class Stage:
    """As much of a stage as a schedule asks for when it is made."""

    def __init__(self, index, count, p):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, count, p, index % p
        self.is_first, self.is_last, self.has_backward, self.group = index == 0, index == count - 1, True, None
        self.device, self.submod = None, None


def write(folder, name, p, m, order):
    with open(os.path.join(folder, f"torch-{name}-{p}-{m}.csv"), "w", newline="", encoding="ascii") as f:
        for rank in range(p):
            csv.writer(f).writerow("" if a is None else repr(a) for a in order[rank])


def own_orders(folder):
    kinds = {"interleaved": S.ScheduleInterleaved1F1B, "zero": S.ScheduleInterleavedZeroBubble,
             "zb-v": S.ScheduleZBVZeroBubble, "dualpipev": S.ScheduleDualPipeV}
    for name, kind in kinds.items():
        for p, m in ((2, 8), (4, 8), (4, 16)):
            local = [Stage(0, 2 * p, p), Stage(2 * p - 1 if name in ("zb-v", "dualpipev") else p, 2 * p, p)]
            order = kind(local, m, loss_fn=lambda *_: None).pipeline_order
            write(folder, name, p, m, order)


def main():
    folder = sys.argv[1]
    files = sorted(glob.glob(os.path.join(folder, "*.csv")))
    assert len(files) > 30, files
    for path in files:
        check(path)
    print(len(files), "schedules pass PyTorch's validator")
    own_orders(folder)


main()
