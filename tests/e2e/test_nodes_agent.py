"""xpurun-nodes over a real nats-server: joining, election, dumps, archives, verdicts, and what goes wrong."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
import unittest

import nodes_test
import xpurun_test

VERDICT = {"schema": "xpurun.verdict/1", "id": "hang.stuck", "kind": "hang", "level": "confirmed", "ranks": [3],
           "sentence": "hang: rank 3 sleeps", "headline": "rank 3 sleeps"}


def make_dump(agent, size=0):
    """A run directory with a dump; returns the path of a file whose content is random."""
    dump = agent.directory / "dumps" / "1-hang"
    dump.mkdir(parents=True)
    (agent.directory / "run.json").write_text(json.dumps({"node": agent.node}))
    (dump / "dump.json").write_text("{}")
    (dump / "rank-1.snapshot").write_bytes(b"stays on the node")
    content = dump / "rank-1.stacks.json"
    content.write_bytes(os.urandom(size) if size else agent.node.encode())
    return content


class NodesAgent(nodes_test.Case):
    def gather(self, agents, size=0):
        """A stall of the last node, and the dump of every node."""
        agents[-1].send("stalled", stall=1, why="hang", ranks=[3])
        calls = [agent.wait("dump") for agent in agents]
        for agent, call in zip(agents, calls):
            make_dump(agent, size)
            agent.send("dumped", request=call["request"], directory="dumps/1-hang", status="complete")
        return calls

    def check_gathered(self, agents, gathered):
        self.assertEqual([(n["node"], n["status"]) for n in gathered["nodes"]],
                         [(agent.node, "complete") for agent in agents], gathered)
        for agent, node in zip(agents[1:], gathered["nodes"][1:]):
            copy = agents[0].directory / node["directory"]
            self.assertEqual(json.loads((copy / "run.json").read_text()), {"node": agent.node})
            name = "dumps/1-hang/rank-1.stacks.json"
            self.assertEqual((copy / name).read_bytes(), (agent.directory / name).read_bytes())
            self.assertFalse((copy / "dumps/1-hang/rank-1.snapshot").exists())

    def test_two_jobs_of_one_name_are_strangers(self):
        self.start_server()
        first = self.start_agent(0, nodes=2, mark={"address": "h0", "port": "29500", "world_size": 4})
        stranger = self.start_agent(1, nodes=2, mark={"address": "h0", "port": "31111", "world_size": 4})
        for agent in (first, stranger):
            agent.wait("joined")
            # After the time in which others are waited for, each judges alone.
            agent.wait_for_elected(agent.node, [agent.node])
        peer = self.start_agent(1, nodes=2, host="host1b", node="n1b", mark={"address": "localhost", "port": "29500"})
        first.wait_for_elected("n0", ["n0", "n1b"])
        peer.wait_for_elected("n0", ["n0", "n1b"])

    def test_nodes_join_and_measure_their_clocks(self):
        self.start_server()
        agents = self.start_job(3)
        measured = agents[0].wait("nodes", lambda m: all(n["uncertainty_ns"] >= 0 for n in m["nodes"]))
        for node in measured["nodes"]:
            # One machine has one clock.
            self.assertLessEqual(abs(node["offset_ns"]), node["uncertainty_ns"] + 1_000_000, node)
        # Calls travel between the nodes; the supervisor has no use for those of others.
        self.assertEqual(measured["nodes"][1]["ranks"][0]["still_s"], 1.5)
        self.assertNotIn("sequence", measured["nodes"][1]["ranks"][0])
        self.assertEqual(measured["nodes"][2]["host"], "host2")
        self.assertEqual(measured["nodes"][2]["expected"], [4, 5])

    def test_joined_names_the_server_without_secrets(self):
        self.start_server()
        agent = self.start_agent(0, nodes=1, token="", url=f"nats://{nodes_test.TOKEN}@127.0.0.1:{self.port}")
        joined = agent.wait("joined")
        self.assertEqual(joined["server"], f"nats://127.0.0.1:{self.port}")
        self.assertEqual((joined["elected"], joined["nodes"]), ("n0", 1))

    def test_the_next_node_takes_over(self):
        self.start_server()
        agents = self.start_job(3)
        self.kill(agents[0])
        began = time.monotonic()
        agents[1].wait_for_elected("n1", ["n1", "n2"])
        agents[2].wait_for_elected("n1", ["n1", "n2"])
        # Ten seconds, and the two seconds until the next message of the helper.
        self.assertLess(time.monotonic() - began, 13)
        # Last words take effect at once.
        agents[1].send("end", exit_status=3)
        self.assertEqual(agents[1].process.wait(10), 0)
        nodes = agents[2].wait_for_elected("n2", ["n2"], seconds=5)["nodes"]
        self.assertEqual([(n["phase"], n["exit_status"]) for n in nodes if n["node"] == "n1"], [("ended", 3)])

    def test_one_verdict_of_all_nodes(self):
        self.start_server()
        agents = self.start_job(3)
        calls = self.gather(agents)
        self.assertEqual({c["request"] for c in calls}, {calls[0]["request"]})
        self.assertEqual({(c["why"], c["node"], tuple(c["ranks"])) for c in calls}, {("hang", "n2", (3,))})
        moments = [c["at_wall_ns"] for c in calls]
        self.assertLess(max(moments) - min(moments), 50_000_000)
        self.check_gathered(agents, agents[0].wait("gathered"))
        agents[0].send("verdict", request=calls[0]["request"], verdict=VERDICT)
        agents[0].send("act", action="kill", exit_status=124, reason="hang")
        for agent in agents[1:]:
            heard = agent.wait("verdict")
            self.assertEqual((heard["node"], heard["request"]), ("n0", calls[0]["request"]))
            self.assertEqual(heard["verdict"]["sentence"], VERDICT["sentence"])
            act = agent.wait("act")
            self.assertEqual((act["action"], act["exit_status"], act["reason"]), ("kill", 124, "hang"))
        # Both are repeated on the server, but reported once.
        agents[1].wait("nodes")
        agents[1].wait("nodes")
        self.assertEqual(agents[1].heard("verdict") + agents[1].heard("act"), [])

    def check_handed_out(self, agents, request):
        name = "dumps/1-hang/rank-1.stacks.json"
        for agent in agents[1:]:
            self.assertTrue(agent.wait("verdict")["shared"])
            files = agent.wait("job_files")
            self.assertEqual((files["request"], files["reason"]), (request, ""))
            self.assertEqual([n["directory"] for n in files["nodes"]],
                             ["" if other is agent else f"nodes/{other.node}" for other in agents])
            for other in agents:
                copy = agent.directory / "nodes" / other.node
                if other is agent:
                    self.assertFalse(copy.exists())
                else:
                    self.assertEqual((copy / name).read_bytes(), (other.directory / name).read_bytes())
                    self.assertEqual(json.loads((copy / "run.json").read_text()), {"node": other.node})
                    self.assertFalse((copy / "dumps/1-hang/rank-1.snapshot").exists())
        self.assertEqual(agents[0].wait("job_files"),
                         {"type": "job_files", "request": request, "nodes": [], "reason": ""})

    def test_what_all_nodes_have_sent_goes_to_every_node(self):
        self.start_server()
        agents = self.start_job(3)
        request = self.gather(agents, size=1 << 20)[0]["request"]
        agents[0].wait("gathered")
        agents[0].send("verdict", request=request, verdict=VERDICT)
        self.check_handed_out(agents, request)

    def test_a_server_that_is_restarted_while_it_is_handed_out(self):
        server = self.start_server()
        agents = self.start_job(2)
        client = self.raw_client()
        client.subscribe("xpurun.job.to.n1")
        client.flush()
        request = self.gather(agents, size=6 << 20)[0]["request"]
        agents[0].wait("gathered")
        agents[0].send("verdict", request=request, verdict=VERDICT)
        parts = 0
        while parts < 3:
            parts += b'"type":"part"' in client.message()[1][:100]
        server.kill()
        server.wait()
        self.start_server()
        self.check_handed_out(agents, request)

    def test_what_is_too_large_stays_where_it_is(self):
        self.start_server()
        agents = self.start_job(2)
        request = self.gather(agents, size=17 << 20)[0]["request"]
        agents[0].wait("gathered")
        agents[0].send("verdict", request=request, verdict=VERDICT)
        # Packed together, the data may be small enough; these are not.
        self.assertTrue(agents[1].wait("verdict")["shared"])
        told = agents[1].wait("job_files")
        self.assertEqual((told["nodes"], told["reason"]), ([], "the data of all nodes is too large to be handed out"))
        self.assertEqual(agents[0].wait("job_files")["nodes"], [])
        agents[1].wait("nodes")
        self.assertFalse((agents[1].directory / "nodes").exists())

    def test_a_dead_and_a_silent_node_are_named(self):
        self.start_server()
        agents = self.start_job(3, gather_timeout_s=12)
        agents[1].send("stalled", stall=1, why="crash", ranks=[2])
        request = agents[0].wait("dump")["request"]
        self.kill(agents[2])
        agents[0].send("dumped", request=request, directory="dumps/1-crash", status="failed", reason="no ptrace")
        gathered = agents[0].wait("gathered")
        self.assertEqual([(n["node"], n["status"]) for n in gathered["nodes"]],
                         [("n0", "partial"), ("n1", "silent"), ("n2", "cut_off")], gathered)
        self.assertEqual(gathered["nodes"][0]["reason"], "no ptrace")
        self.assertEqual(gathered["nodes"][2]["ranks"], [4, 5])

    def test_the_next_elected_node_starts_the_request_again(self):
        self.start_server()
        agents = self.start_job(3)
        agents[2].send("stalled", stall=1, why="hang", ranks=[3])
        first = agents[1].wait("dump")["request"]
        self.kill(agents[0])
        calls = [agent.wait("dump", lambda m: m["request"] != first) for agent in agents[1:]]
        for agent, call in zip(agents[1:], calls):
            make_dump(agent)
            agent.send("dumped", request=call["request"], directory="dumps/1-hang", status="complete")
        gathered = agents[1].wait("gathered")
        self.assertEqual([(n["node"], n["status"]) for n in gathered["nodes"]],
                         [("n0", "cut_off"), ("n1", "complete"), ("n2", "complete")], gathered)

    def test_a_server_that_is_killed_and_restarted_while_an_archive_is_sent(self):
        server = self.start_server()
        agents = self.start_job(2)
        client = self.raw_client()
        client.subscribe("xpurun.job.to.n0")
        client.flush()
        self.gather(agents, size=30 << 20)
        parts = 0
        while parts < 3:
            parts += b'"type":"part"' in client.message()[1][:100]
        server.kill()
        server.wait()
        self.assertEqual(agents[0].heard("gathered"), [])
        for agent in agents:
            agent.wait("alone")
        self.start_server()
        agents[1].wait("joined")
        self.check_gathered(agents, agents[0].wait("gathered", seconds=60))

    def test_alone_until_there_is_a_server(self):
        agent = self.start_agent(0, nodes=1)
        self.assertTrue(agent.wait("alone")["reason"])
        agent.send("stalled", stall=1, why="hang", ranks=[0])
        agent.wait("nodes")
        self.assertEqual(agent.heard("dump"), [])
        self.start_server()
        self.assertEqual(agent.wait("joined")["nodes"], 1)
        # The claim is still open.
        agent.wait("dump")

    def test_a_wrong_token_is_refused_once_and_for_all(self):
        self.start_server()
        agent = self.start_agent(0, token="wrong")
        reason = agent.wait("failed")["reason"]
        self.assertIn("uthori", reason)
        self.assertNotIn("wrong", reason)
        self.assertEqual(agent.process.wait(10), 0)

    def test_a_start_that_makes_no_sense_is_refused(self):
        refused = (({"node": "../x"}, "name of a node"), ({"url": "http://x"}, "URL"), ({"run": ""}, "--name"),
                   ({"tls_cert": "/x"}, "key"), ({"tls_ca": "/nonexistent"}, "refuses"))
        for wrong, word in refused:
            with self.subTest(wrong=wrong):
                agent = self.start_agent(0, **wrong)
                self.assertIn(word, agent.wait("failed")["reason"])

    def test_two_jobs_on_one_server(self):
        self.start_server()
        self.start_job(2)
        others = self.start_job(2, run="other job.*")
        others[1].send("stalled", stall=1, why="request", ranks=[])
        others[0].wait("dump")
        for agent in self.agents[:2]:
            agent.wait("nodes")
            self.assertEqual(agent.heard("dump"), [])

    def test_hostile_messages_change_nothing(self):
        self.start_server()
        agents = self.start_job(2, world_size=4)
        client = self.raw_client()
        state = {"node_rank": 5, "host": "h", "expected": [8], "eligible": True, "state": {"phase": "running"}}

        def message(kind, content, name="n9", instance=9):
            message = {"type": kind, "from": name, "instance": instance, "content": content}
            return b"J" + json.dumps(message).encode() + b"\n"
        hostile = [
            b"", b"J", b"Z", b"J{}\n", os.urandom(1000), b"Z" + os.urandom(1000), b"J" + b"[" * 100_000 + b"\n",
            message("state", state, name="n0"),  # a name in use
            message("state", {**state, "node_rank": 0, "expected": []}),  # a rank in use
            message("state", {**state, "node_rank": 99, "expected": []}),  # no such node rank
            message("state", {**state, "node_rank": 1_000_000_000}),
            message("state", {**state, "expected": list(range(50_000))}),
            message("state", {**state, "expected": [2_000_000_000]}),
            message("state", state, name="../../x"), message("state", state, instance=0),
            message("state", 3), message("state", {**state, "state": []}), message("nonsense", {}),
            message("dump", {"request": "x", "why": "hang", "at_wall_ns": 0}),
            message("dump", {"request": "x", "why": "hang", "at_wall_ns": 0}, name="n0"),
            message("act", {"id": 1, "act": {"action": "kill"}}),
            message("act", {"id": 1, "act": {"action": "kill"}}, name="n0"),
            message("verdict", {"request": "x", "node": "n0", "verdict": VERDICT}),
            message("offer", {"request": "x", "directory": "d", "size": 1 << 60, "chunk": 1}),
            message("want", {"request": "x", "numbers": list(range(100_000))}),
            message("ask", {"id": 1, "verb": "status", "arguments": "{}"}),
        ]
        subjects = ["all", "elected", "to.n0", "to.n1", "state.n9", "state.n0"]
        for payload in hostile:
            for subject in subjects:
                client.publish(f"xpurun.job.{subject}", payload)
        client.flush()
        for agent in agents:
            nodes = agent.wait("nodes", lambda m: m["dropped"] >= len(hostile))
            self.assertEqual([(n["node"], n["elected"]) for n in nodes["nodes"]], [("n0", True), ("n1", False)])
            for kind in "dump", "act", "verdict", "request":
                self.assertEqual(agent.heard(kind), [])
        self.check_gathered(agents, (self.gather(agents), agents[0].wait("gathered"))[1])

    def test_requests_and_answers(self):
        self.start_server()
        agents = self.start_job(3)
        agents[1].send("ask", id=5, node="", verb="status", arguments='{"cmd":"status"}')
        for agent in (agents[0], agents[2]):
            request = agent.wait("request")
            self.assertEqual((request["node"], request["verb"], request["arguments"]),
                             ("n1", "status", '{"cmd":"status"}'))
            agent.send("answer", id=request["id"], status=200, body=agent.node * 1000)
        answers = [agents[1].wait("answers"), agents[1].wait("answers")]
        self.assertEqual(sorted((a["id"], a["node"], a["status"], a["body"]) for a in answers),
                         [(5, "n0", 200, "n0" * 1000), (5, "n2", 200, "n2" * 1000)])
        self.assertEqual([a["last"] for a in answers], [False, True])
        agents[1].send("ask", id=6, node="nobody", verb="status", arguments="{}")
        answer = agents[1].wait("answers")
        self.assertEqual((answer["id"], answer["status"], answer["last"]), (6, 404, True))
        agents[1].send("ask", id=7, node="n2", verb="status", arguments="{}")
        answer = agents[1].wait("answers")
        self.assertEqual((answer["id"], answer["node"], answer["status"], answer["last"]), (7, "n2", 504, True))

    def test_the_helper_ends_with_its_supervisor(self):
        agent = self.start_agent(0)
        agent.socket.close()
        self.assertEqual(agent.process.wait(10), 0)

    def test_a_server_of_the_job_itself(self):
        secret = self.dir / "secret.json"
        auto = {"auto": True, "url": "", "token": "", "mark": {"address": "127.0.0.1"}, "secret_file": str(secret)}
        agents = [self.start_agent(1, nodes=2, **auto)]
        self.assertIn("rank 0", agents[0].wait("alone")["reason"])
        agents.insert(0, self.start_agent(0, nodes=2, **auto))
        for agent in agents:
            agent.wait_for_elected("n0", ["n0", "n1"])
        content = json.loads(secret.read_text())
        for path in secret, agents[0].directory / "nats-server" / "nats-server.conf":
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
            self.assertIn(content["token"], path.read_text())
        self.assertNotIn(content["token"], (agents[0].directory / "nats-server" / "nats-server.log").read_text())
        with self.assertRaises(PermissionError):
            nodes_test.RawClient(int(content["url"].rsplit(":", 1)[1]), token="")
        # A server that dies is started again, with the same URL.
        port_file = next((agents[0].directory / "nats-server").glob("nats-server_*.ports"))
        os.kill(int(port_file.stem.split("_")[1]), signal.SIGKILL)
        self.wait_for(lambda: [p for p in port_file.parent.glob("nats-server_*.ports") if p != port_file], "new server")
        agents[1].send("stalled", stall=1, why="request", ranks=[])
        agents[0].wait("dump")
        self.assertEqual(json.loads(secret.read_text()), content)
        # The server waits for the last words of the others, and ends.
        agents[0].send("end", exit_status=0)
        agents[1].wait_for_elected("n1", ["n1"], seconds=5)
        agents[1].send("end", exit_status=0)
        for agent in agents:
            self.assertEqual(agent.process.wait(10), 0)
        port = int(content["url"].rsplit(":", 1)[1])
        with self.assertRaises(ConnectionRefusedError):
            nodes_test.RawClient(port)

    def test_the_server_of_a_killed_helper_ends(self):
        secret = self.dir / "secret.json"
        agent = self.start_agent(0, auto=True, url="", token="", mark={"address": "127.0.0.1"}, secret_file=str(secret))
        agent.wait("joined")
        port = int(json.loads(secret.read_text())["url"].rsplit(":", 1)[1])
        self.kill(agent)

        def refuses():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) != 0
        self.wait_for(refuses, "end of the server")

    def test_user_and_password(self):
        self.start_server("--user", "me", "--pass", "of-the-test")
        agent = self.start_agent(0, nodes=1, token="", user="me", password="of-the-test")
        agent.wait("joined")
        agent = self.start_agent(0, nodes=1, token="", user="me", password="another")
        self.assertIn("uthori", agent.wait("failed")["reason"])

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tls(self):
        for name in "good", "other":
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes", "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                            "-keyout", f"{name}.key", "-out", f"{name}.pem"],
                           cwd=self.dir, check=True, capture_output=True)
        self.start_server("--auth", nodes_test.TOKEN, "--tls", "--tlscert", self.dir / "good.pem", "--tlskey",
                          self.dir / "good.key")
        url = f"tls://localhost:{self.port}"
        agent = self.start_agent(0, nodes=1, url=url, tls_ca=str(self.dir / "good.pem"))
        agent.wait("joined")
        agent = self.start_agent(0, nodes=1, url=url, tls_ca=str(self.dir / "other.pem"))
        self.assertIn("refuses", agent.wait("failed")["reason"])
        # A server that wants TLS is not talked to without.
        agent = self.start_agent(0, nodes=1)
        self.assertIn("refuses", agent.wait("failed")["reason"])

    def test_a_server_that_cannot_be_started_is_an_error(self):
        for address, word in (('x"; include y', "address"), ("192.0.2.1", "192.0.2.1")):
            with self.subTest(address=address):
                agent = self.start_agent(0, auto=True, url="", mark={"address": address}, run=f"run{len(address)}")
                self.assertIn(word, agent.wait("failed")["reason"])

    def test_a_secret_file_that_others_could_have_written(self):
        secret = self.dir / "secret.json"
        secret.write_text("{}")
        secret.chmod(0o666)
        agent = self.start_agent(1, auto=True, url="", secret_file=str(secret))
        self.assertIn("0600", agent.wait("alone")["reason"])


if __name__ == "__main__":
    xpurun_test.main()
