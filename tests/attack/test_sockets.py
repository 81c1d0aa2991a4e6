"""Cases 50, 51: hostile clients of the control socket and of HTTP."""

import http.client
import json
import random
import re
import signal
import socket
import subprocess

import attack
import lane
from attack import PYTHON, as_nobody


class Sockets(attack.Case):
    def setUp(self):
        super().setUp()
        self.process = self.start_xpurun("--control-port", "auto", "--metrics-port", "18900", "--", PYTHON, "-c",
                                         "import time; print('up', flush=True); time.sleep(300)", env=self.rank_env())
        self.assertEqual(self.process.stdout.readline(), "up\n")
        self.wait_for(lambda: self.rank_pids(), "rank")
        self.manifest_ = self.manifest()

    def tearDown(self):
        self.process.terminate()
        self.assertEqual(self.process.wait(timeout=30), 128 + signal.SIGTERM)

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(20)
        client.connect(self.manifest_["control"])
        self.addCleanup(client.close)
        return client

    def http(self, which):
        host, port = re.search(r"//([^:/]+):(\d+)", self.manifest_[which]).groups()
        client = socket.create_connection((host, int(port)), timeout=20)
        self.addCleanup(client.close)
        return client

    def answers(self):
        client = self.connect()
        try:
            client.sendall(b'{"cmd":"status"}\n')
            return json.loads(client.makefile().readline() or "{}").get("ok")
        except OSError:
            return None  # refused and closed before the request was sent

    def assert_well(self):
        """Connects at once or as soon as earlier clients have left, because the number of clients is limited."""
        self.wait_for(self.answers, "answer", 20)

    def test_case_50_garbage_and_random_bytes(self):
        seeded = random.Random(4)
        for i in range(2000 if lane.LONG else 100):
            client = self.connect()
            try:
                client.sendall(seeded.randbytes(seeded.randrange(1, 3000)))
                if i % 3 == 0:
                    client.sendall(b"\n")
            except OSError:
                pass
            client.close()
        self.assert_well()

    def test_case_50_many_clients_that_say_nothing(self):
        waiting = []
        for _ in range(60):
            try:
                waiting.append(self.connect())
            except OSError:
                break
        for client in waiting:
            client.close()
        self.assert_well()

    def test_case_50_a_client_that_ends_its_sending_side_gets_its_answer(self):
        """D26: as nc -N and socat do."""
        for request in (b'{"cmd":"status"}\n', b'{"cmd":"dump"}\n'):
            with self.subTest(request=request):
                client = self.connect()
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                answer = client.makefile().readline()
                self.assertTrue(answer, "no answer")
                self.assertTrue(json.loads(answer)["ok"], answer)

    def test_case_50_another_user(self):
        attack.need_root()
        self.dir.chmod(0o755)
        code = (
            "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect(sys.argv[1])\n   "
            " s.sendall(b'{\"cmd\":\"dump\"}\\n')\n    print(s.recv(100))\nexcept PermissionError:\n   "
            " print('refused')\n"
        )
        result = subprocess.run(
            [PYTHON, "-c", code, self.manifest_["control"]],
            capture_output=True,
            text=True,
            timeout=30,
            preexec_fn=as_nobody(),
        )
        self.assertEqual(result.stdout, "refused\n", result.stderr)
        self.assert_well()

    ODD_REQUESTS = [
        b"GET",
        b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /dump HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        (
            b"POST /dump HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /"
            b" HTTP/1.1\r\n\r\n"
        ),
        b"POST /dump HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"\x16\x03\x01" + b"\xff" * 200,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ]

    def test_case_51_odd_requests(self):
        for which in ("control_url", "metrics"):
            if not self.manifest_[which]:
                continue
            for request in self.ODD_REQUESTS:
                with self.subTest(server=which, request=request[:30]):
                    client = self.http(which)
                    answer = b""
                    try:
                        client.sendall(request)
                        client.shutdown(socket.SHUT_WR)
                        while block := client.recv(65536):
                            answer += block
                    except OSError:
                        pass
                    self.assertNotIn(b"root:", answer)
                    self.assertFalse((self.out / "dumps").exists(), "nothing without a token")
        self.assert_well()

    def test_case_51_without_token_or_from_a_page_nothing_happens(self):
        host, port = re.search(r"//([^:/]+):(\d+)", self.manifest_["control_url"]).groups()
        token = (self.out / "control.token").read_text().strip()
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Bearer {token}", "Origin": "https://evil.example"},
            {"Authorization": f"Bearer {token}", "Host": "evil.example"},
        ):
            with self.subTest(headers={k: v for k, v in headers.items() if k != "Authorization"}):
                client = http.client.HTTPConnection(host, int(port), timeout=20)
                client.request("POST", "/dump", body=b"{}", headers=headers)
                self.assertIn(client.getresponse().status, (400, 401, 403, 404, 405))
                client.close()
        self.assertFalse((self.out / "dumps").exists())

    def test_case_51_slow_clients_keep_nobody_out(self):
        slow = [self.http("control_url") for _ in range(30)]
        for client in slow:
            client.sendall(b"GET / HT")
        self.assert_well()
        client = self.http("control_url")
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 "))

    def test_case_51_random_bytes(self):
        seeded = random.Random(5)
        for _ in range(1000 if lane.LONG else 60):
            client = self.http("control_url")
            try:
                client.sendall(seeded.randbytes(seeded.randrange(1, 2000)))
            except OSError:
                pass
            client.close()
        self.assert_well()


if __name__ == "__main__":
    attack.main()
