"""xpurun query: tables, ready questions, and statements that may only read."""

import csv
import io
import itertools
import json
import re
import sqlite3
import subprocess

import make_events
import xpurun_test
from xpurun_test import PROGRAM

STEPS = 20
RANKS = 4


class Query(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        self.run_dir = self.dir / "run"
        for rank in range(RANKS):
            ranks = self.run_dir / "ranks" / str(rank)
            make_events.write_rank(ranks / "events-1.xev", rank, RANKS,
                                   make_events.training_events(STEPS, late_ns=100_000 if rank == 2 else 0))
            make_events.write_marks(ranks / "spans-1.xsp", rank, STEPS)
        (self.run_dir / "run.json").write_text(json.dumps({
            "schema": "xpurun.run/1", "outcome": "exit", "elapsed_s": 3, "started_wall_ns": make_events.WALL,
            "processes": [{"pid": 7, "role": "rank", "rank": 1,
                           "death": {"order": 1, "at_s": 2.5, "wait_status": 256}}],
            "verdict": {"kind": "exit", "sentence": "rank 1 exited with status 1"}}))

    def query(self, *args, status=0):
        done = subprocess.run([PROGRAM, "query", *map(str, args)], capture_output=True, text=True, timeout=60,
                              cwd=self.dir)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def rows(self, *args):
        return [json.loads(line) for line in self.query("--format", "json", *args, self.run_dir).stdout.splitlines()]

    def test_the_tables(self):
        self.assertEqual(self.rows("SELECT count(*) AS n FROM calls"), [{"n": RANKS * STEPS * 10}])
        calls = self.rows("SELECT category, count(*) AS n FROM calls WHERE rank = 3 GROUP BY category ORDER BY n")
        self.assertEqual({row["category"]: row["n"] for row in calls},
                         {"matmul": 6 * STEPS, "memory": STEPS, "collective": 2 * STEPS, "host": STEPS})
        first = self.rows("SELECT * FROM calls WHERE category = 'matmul' ORDER BY begin_s, rank LIMIT 1")[0]
        self.assertEqual((first["rank"], first["name"], first["stream"], first["flop"]),
                         (0, "matmul 4096x4096x4096 bf16", 1, 2 * 4096**3))
        self.assertAlmostEqual(first["begin_s"], 1.00002, places=6)
        self.assertAlmostEqual(first["seconds"], 190e-6, places=9)
        self.assertAlmostEqual(first["tflops"], 2 * 4096**3 / 190e-6 / 1e12, places=3)
        self.assertEqual(self.rows("SELECT outcome, verdict FROM run"),
                         [{"outcome": "exit", "verdict": "rank 1 exited with status 1"}])
        self.assertEqual(self.rows("SELECT rank, pid, at_s, status FROM deaths"),
                         [{"rank": 1, "pid": 7, "at_s": 2.5, "status": "exited with status 1"}])

    def test_an_answer_without_rows_says_why(self):
        empty = set()
        for line in self.query("--list", "--format", "json").stdout.splitlines():
            question = json.loads(line)["question"]
            answer = self.query("--ask", question, self.run_dir)
            has_rows = len(answer.stdout.splitlines()) > 1
            self.assertEqual(answer.stderr.startswith("xpurun: no rows: "), not has_rows, question)
            empty |= {question} if not has_rows else set()
        self.assertLessEqual({"captured", "functions", "idle", "links"}, empty)

    def test_steps(self):
        steps = self.rows("SELECT rank, count(*) AS n, avg(seconds) AS s FROM steps GROUP BY rank ORDER BY rank")
        self.assertEqual([row["rank"] for row in steps], list(range(RANKS)))
        for row in steps:
            self.assertAlmostEqual(row["n"], STEPS, delta=1)
            self.assertAlmostEqual(row["s"], 0.002, places=5)

    def test_the_load_of_steps(self):
        load = self.rows("SELECT rank, avg(cpu_s) AS cpu, avg(run_delay_s) AS delay, avg(page_faults) AS faults, "
                         "count(transfer_s) AS known FROM steps GROUP BY rank")
        self.assertEqual([(row["cpu"], row["delay"], row["faults"]) for row in load], [(None, None, None)] * RANKS)
        self.assertEqual(len(self.rows("--ask", "load")), RANKS)

    def test_captured_functions(self):
        capture = self.run_dir / "captures" / "1"
        capture.mkdir(parents=True)
        tracks = [{"rank": rank, "pid": 10, "thread": "MainThread", "worker": False,
                   "stacks": [[[0, 1], 150 if rank == 2 else 20], [[0], 150 if rank == 2 else 280]]}
                  for rank in range(RANKS)]
        (capture / "profile.json").write_text(json.dumps({
            "schema": "xpurun.profile/1", "reason": "slow", "begin_wall_ns": make_events.WALL + 10**9,
            "interval_s": 0.02, "about": "run", "host": "h", "torn": 0,
            "seconds": 6, "frames": [{"function": "train", "file": "/job/train.py", "line": 9},
                                     {"function": "read", "file": "/job/data.py", "line": 40}],
            "tracks": tracks, "notes": []}))
        self.assertEqual(self.rows("SELECT capture, reason, seconds FROM captures"),
                         [{"capture": "captures/1", "reason": "slow", "seconds": 6}])
        [read] = self.rows("SELECT kind, place, outliers, outliers_share, beta, stack FROM captured "
                           "WHERE name = 'read'")
        self.assertEqual((read["kind"], read["place"], read["outliers"]), ("python", "/job/data.py:40", "2"))
        self.assertEqual(read["stack"], "train.train > data.read")
        self.assertAlmostEqual(read["outliers_share"], 0.5, places=2)
        self.assertAlmostEqual(read["beta"], 20 / 300, places=2)
        self.assertIn("read", {row["name"] for row in self.rows("--ask", "captured")})

    def test_every_ready_question_has_an_answer(self):
        listed = self.query("--list").stdout
        names = re.findall(r"^  ([a-z-]+) {2,}", listed.split("Tables")[0], re.M)
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            with self.subTest(name):
                self.query("--ask", name, self.run_dir)
        late = self.rows("--ask", "late")
        # The reduce-scatter is the collective of all ranks, and rank 2 comes last to each.
        self.assertEqual(late[0]["rank"], 2)
        self.assertGreaterEqual(late[0]["times_last"], STEPS)
        self.assertEqual(self.rows("--ask", "failures")[0]["what"], "exited with status 1")

    def instructions(self, steps, sql):
        """That SQLite needs for each question on a run of so many steps, in hundreds."""
        for rank in range(RANKS):
            make_events.write_rank(self.run_dir / f"ranks/{rank}/events-1.xev", rank, RANKS,
                                   make_events.training_events(steps))
            make_events.write_marks(self.run_dir / f"ranks/{rank}/spans-1.xsp", rank, steps)
        path = self.dir / f"{steps}.sqlite"
        self.query("--save", path, self.run_dir)
        needed = {}
        with sqlite3.connect(path) as database:
            for name, one in sql.items():
                count = itertools.count()
                database.set_progress_handler(lambda: next(count) and 0, 100)
                database.execute(one).fetchall()
                needed[name] = next(count)
        return needed

    def test_no_ready_question_is_quadratic(self):
        listed = [json.loads(line) for line in self.query("--list", "--format", "json").stdout.splitlines()]
        sql = {row["question"]: row["sql"] for row in listed}
        few, many = self.instructions(100, sql), self.instructions(400, sql)
        for name in sql:
            self.assertLess(many[name], 6 * few[name] + 10, name)  # four times the rows, sorted
        self.assertGreater(many["late"], 2 * few["late"])

    def test_questions_about_a_job_without_a_gpu(self):
        for rank in range(RANKS):
            (self.run_dir / f"ranks/{rank}/events-1.xev").unlink()
            make_events.write_calls(self.run_dir / f"ranks/{rank}/spans-1.xsp", rank, STEPS,
                                    late_ns=100_000 if rank == 2 else 0)
        late = self.rows("--ask", "late")
        self.assertEqual((late[0]["rank"], late[0]["times_last"]), (2, STEPS))
        self.assertAlmostEqual(late[0]["mean_ms_after_the_first"], 0.1, delta=0.01)
        [collective] = self.rows("--ask", "collectives")
        self.assertEqual(collective["calls"], RANKS * STEPS)
        places = self.rows("SELECT DISTINCT place FROM spans WHERE stage = 'communication'")
        self.assertEqual(places, [{"place": "train.py:40 (step)"}])

    def test_the_listed_columns_exist(self):
        listed = self.query("--list").stdout.split("Tables")[1]
        table = None
        for line in listed.splitlines():
            if name := re.fullmatch(r"  (\w+)", line):
                table = name[1]
            elif columns := re.fullmatch(r"    (\w+(, \w+)*)", line):
                self.query(f"SELECT {columns[1]} FROM {table}", self.run_dir)

    def test_forms(self):
        table = self.query("SELECT 1 AS one, 'a,\"b' AS two, NULL AS three", self.run_dir).stdout
        self.assertEqual(table, "one  two   three\n  1  a,\"b\n")
        text = self.query("--format", "csv", "SELECT 1 AS one, 'a,\"b' AS two, NULL AS three", self.run_dir).stdout
        self.assertEqual(list(csv.reader(io.StringIO(text))), [["one", "two", "three"], ["1", 'a,"b', ""]])

    def test_a_database_for_other_programs(self):
        path = self.dir / "run.sqlite"
        self.query("--save", path, self.run_dir)
        with sqlite3.connect(path) as database:
            self.assertEqual(database.execute("SELECT count(*) FROM calls").fetchone(), (RANKS * STEPS * 10,))
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertIn("already exists", self.query("--save", path, self.run_dir, status=1).stderr)
        # A link leads to no other place, also where nothing is there yet.
        link = self.dir / "link.sqlite"
        link.symlink_to("elsewhere.sqlite")
        self.assertIn("already exists", self.query("--save", link, self.run_dir, status=1).stderr)
        self.assertFalse((self.dir / "elsewhere.sqlite").exists())

    def test_statements_may_only_read(self):
        for sql in ("DROP TABLE calls", "DELETE FROM calls", "ATTACH '/tmp/x' AS x", "PRAGMA user_version = 5",
                    "SELECT 1; DROP TABLE calls", "SELECT nothing FROM calls", "", "SELECT load_extension('x')",
                    "VACUUM INTO '/tmp/x'"):
            with self.subTest(sql):
                self.assertIn("E-QUERY", self.query(sql, self.run_dir, status=1).stderr)

    def test_wrong_usage_and_damage(self):
        self.query(status=2)
        self.query("--ask", "nothing", self.run_dir, status=2)
        self.query("--format", "xml", "SELECT 1", self.run_dir, status=2)
        self.assertIn("E-NO-RUN", self.query("SELECT 1", self.dir / "absent", status=1).stderr)
        self.assertIn("no question", self.query(self.run_dir, status=2).stderr)
        (self.run_dir / "ranks" / "3" / "events-1.xev").write_bytes(b"\0" * 100)
        done = self.query("SELECT count(DISTINCT rank) AS n FROM calls", self.run_dir, status=1)
        self.assertIn("ranks/3/events-1.xev", done.stderr)
        self.assertEqual(done.stdout, "n\n3\n")


if __name__ == "__main__":
    xpurun_test.main()
