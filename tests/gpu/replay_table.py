"""The result of tests/gpu/replay as a table and as a small JSON file: replay_table.py REPLAY.json RESULT.json"""

import json
import pathlib
import sys

MOST = 0.10  # allowed difference


def main():
    replay = json.loads(pathlib.Path(sys.argv[1]).read_text())
    rows, out = replay["matmuls"][:10], []
    print(replay["sentence"])
    device = replay["device"]
    print(f"{device['name']}, {', '.join(device['libraries'])}; SM {device['sm_clock_mhz']} of "
          f"{device['sm_clock_max_mhz']} MHz, {device['temperature_c']} C, {device['power_w']:.0f} W, "
          f"limited by {', '.join(device['throttle_reasons']) or 'nothing'}")
    for m in rows:
        got, expected = m["tflops"], m["replay_tflops"]
        difference = got / expected - 1 if expected > 0 else None
        out.append({"shape": m["shape"], "types": m["types"], "transposes": m["transposes"], "function": m["function"],
                    "epilogue": m["epilogue"], "share": round(m["share"], 4), "calls": m["count"],
                    "run_tflops": round(got, 2), "replay_tflops": round(expected, 2), "difference": difference,
                    "sm_clock_mhz": m["replay"]["sm_clock_mhz"], "skipped": m["replay"]["skipped"]})
        told = f"{difference:+8.1%}" if difference is not None else m["replay"]["skipped"]
        print(f"{m['shape']:>26} {m['types']:>5} {m['transposes']} {m['function']:<27} {m['epilogue'] or '-':<10}"
              f" {m['share']:6.1%} {got:8.1f} {expected:8.1f} {told}")
    known = [abs(row["difference"]) for row in out if row["difference"] is not None]
    within = sum(difference <= MOST for difference in known)
    print(f"{within} of {len(out)} within {MOST:.0%}; largest difference {max(known, default=0):.1%}")
    collectives = [{key: c[key] for key in ("operation", "bytes", "count", "transfer_s", "bus_gb_s",
                                            "replay_bus_gb_s", "of_replay")} for c in replay["collectives"]]
    for c in collectives:
        print(f"{c['operation']:>14} {c['bytes'] / 2**20:9.2f} MiB {c['bus_gb_s']:8.1f} "
              f"{c['replay_bus_gb_s']:8.1f} GB/s")
    pathlib.Path(sys.argv[2]).write_text(json.dumps(
        {"within": within, "of": len(out), "largest": max(known, default=None), "device": device,
         "sentence": replay["sentence"], "matmuls": out, "collectives": collectives}, indent=1) + "\n")


if __name__ == "__main__":
    main()
