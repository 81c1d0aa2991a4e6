"""Feeds a program that reads its standard input in pieces, with pauses of most of the timeout."""

import subprocess
import sys

SECONDS = float(sys.argv[1])

READ = """
import os, sys, time
while os.read(0, 65536):
    time.sleep(float(sys.argv[1]) / 3)
"""
subprocess.run([sys.executable, "-c", READ, str(SECONDS)], input=bytes(4 * 65536), check=True)
