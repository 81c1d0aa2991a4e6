"""Cases 48, 49: damaged files, special files and links. D19: no command waits for a FIFO."""

import gzip
import os
import random
import shutil
import subprocess

import attack
import lane
from attack import PROGRAM


class Reading(attack.Case):
    """Reports of a recorded run whose files were replaced."""

    def setUp(self):
        super().setUp()
        self.hang(12)
        self.dump = next(self.out.glob("dumps/*"))
        self.stack_file = next(self.dump.glob("*.stacks.json"))

    def report(self, directory=None, timeout=10):
        return subprocess.run(
            [PROGRAM, "report", directory or self.out],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.env(),
            cwd=self.dir,
        )

    def merged(self, *args, timeout=10):
        return subprocess.run([PROGRAM, "stacks", *map(str, args)], capture_output=True, text=True, timeout=timeout,
                              env=self.env(), cwd=self.dir)

    def replaced(self, path, make):
        path.unlink()
        make(path)

    def no_files(self):
        yield "FIFO", os.mkfifo
        yield "directory", os.mkdir
        yield "endless device", lambda path: path.symlink_to("/dev/zero")
        yield "loop of links", lambda path: path.symlink_to(path.name)
        yield "link to nothing", lambda path: path.symlink_to("/nonexistent")

    def test_case_49_run_json_is_no_file(self):
        text = (self.out / "run.json").read_text()
        for name, make in self.no_files():
            with self.subTest(kind=name):
                self.replaced(self.out / "run.json", make)
                result = self.report()
                self.assertIn(result.returncode, (0, 1), result.stderr)
                self.assertIn("run.json", result.stderr + result.stdout)
                self.clear(self.out / "run.json")
                (self.out / "run.json").write_text(text)

    def test_case_49_stacks_are_no_files(self):
        text = self.stack_file.read_text()
        for name, make in self.no_files():
            with self.subTest(kind=name):
                self.replaced(self.stack_file, make)
                self.assertEqual(self.report().returncode, 0)
                self.assertIn(self.merged(self.dump).returncode, (0, 1))
                self.clear(self.stack_file)
                self.stack_file.write_text(text)

    def test_case_49_other_files_are_fifos(self):
        for pattern in (
            "dumps/*/dump.json",
            "dumps/*/collectives.json",
            "dumps/*/timing.json",
            "timing.json",
            "verdict.json",
            "ranks/*/*",
            "dumps/*/*.snapshot",
        ):
            for path in list(self.out.glob(pattern)) or [self.out / pattern.replace("*", "0")]:
                if not path.parent.is_dir():
                    continue
                with self.subTest(file=str(path.relative_to(self.out))):
                    kept = path.read_bytes() if path.exists() else None
                    self.clear(path)
                    os.mkfifo(path)
                    self.assertIn(self.report().returncode, (0, 1))
                    self.assertIn(self.merged(self.dump).returncode, (0, 1))
                    self.clear(path)
                    if kept is not None:
                        path.write_bytes(kept)

    def test_case_48_a_directory_with_nothing_but_a_damaged_file(self):
        alone = self.dir / "damaged"
        alone.mkdir()
        (alone / "a.stacks.json").write_text("{")
        result = self.merged(alone)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("a.stacks.json", result.stderr)

    def test_case_49_a_fifo_named_as_stacks(self):
        alone = self.dir / "alone"
        alone.mkdir()
        fifo = alone / "a.stacks.json"
        os.mkfifo(fifo)
        self.assertNotEqual(self.merged(fifo).returncode, 0)
        self.assertNotEqual(self.merged(alone).returncode, 0)
        # Beside readable files it is left out, with a message.
        shutil.copy(self.stack_file, alone)
        both = self.merged(alone)
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertIn("a.stacks.json", both.stdout + both.stderr)

    def test_case_49_pictures_are_not_written_through_a_link(self):
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        shutil.rmtree(self.out / "stacks", ignore_errors=True)
        (self.out / "stacks").symlink_to(elsewhere)
        self.report()
        self.assertEqual(list(elsewhere.iterdir()), [])

    def test_case_49_a_link_to_a_secret_file_shows_nothing_of_it(self):
        secret = self.dir / "secret"
        secret.write_text("root:$6$hashhash:1::\n")
        self.replaced(self.stack_file, lambda path: path.symlink_to(secret))
        results = [self.report(), self.merged(self.dump)]
        self.assertNotIn("hashhash", "".join(r.stdout + r.stderr for r in results))

    def clear(self, path):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def damaged(self, data, seeded):
        data = bytearray(data)
        kind = seeded.randrange(5)
        if not data or kind == 0:
            return bytes(data[:seeded.randrange(len(data) + 1)])
        at = seeded.randrange(len(data))
        if kind == 1:
            data[at] ^= 1 << seeded.randrange(8)
        elif kind == 2:
            data[at:at + 4] = seeded.randbytes(4)
        elif kind == 3:
            data[at:at] = b'"[{' * 200
        else:
            del data[at:at + seeded.randrange(1, 100)]
        return bytes(data)

    def damage(self, rounds, pattern, ask):
        files = sorted(self.out.glob(pattern))
        self.assertTrue(files)
        seeded = random.Random(3)
        for i in range(rounds):
            path = files[i % len(files)]
            good = path.read_bytes()
            path.write_bytes(self.damaged(good, seeded))
            try:
                result = ask()
                self.assertIn(result.returncode, (0, 1), (i, path, result.returncode, result.stderr[-500:]))
                self.assertNotIn("terminate called", result.stderr)
            except (AssertionError, subprocess.TimeoutExpired):
                shutil.copy(path, self.dir / f"damaged-{i}-{path.name}")
                raise
            finally:
                path.write_bytes(good)

    def test_case_48_damaged_json(self):
        self.damage(2000 if lane.LONG else 60, "**/*.json", self.report)

    def test_case_48_damaged_snapshots(self):
        nothing = self.dir / "symbols"
        nothing.mkdir()
        # With --symbols the stacks are made again from the snapshots.
        self.damage(
            450 if lane.LONG else 30, "dumps/*/*.snapshot", lambda: self.merged("--symbols", nothing, self.dump)
        )

    def test_case_48_a_file_that_grows_when_unpacked(self):
        bomb = self.dir / "bomb.stacks.json.gz"
        with gzip.open(bomb, "wb", 9) as f:
            for _ in range(64 if not lane.LONG else 3072):
                f.write(b" " * (1 << 20))
        result = self.merged(bomb, timeout=60)
        self.assertNotEqual(result.returncode, 0)
        self.assertLess(len(result.stderr), 10_000)


if __name__ == "__main__":
    attack.main()
