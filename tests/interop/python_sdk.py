"""The official Python SDK, in each of its ways to agree on a protocol version.

Usage: python python_sdk.py SERVER
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
TOOLS = ["list", "output", "send", "start", "status", "stop"]

# The leader echoes, and there is a second process that only the server can find.
COMMAND = "sleep 1000 & echo $!; cat"


async def until(description, what, within=10.0):
    """Asks `what` again and again until it gives something that is true."""
    with anyio.move_on_after(within):
        while True:
            if value := await what():
                return value
            await anyio.sleep(0.01)
    raise AssertionError(f"no {description} within {within} s")


def lives(pid):
    """Whether a process is there; one that is dead and not yet buried is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if sys.platform != "linux":
        return True
    try:
        return not re.match(r"\d+ \(.*\) Z", Path(f"/proc/{pid}/stat").read_text(), re.DOTALL)
    except OSError:
        return False


def text_of(result):
    """The text of a result, which must be all of its content."""
    (block,) = result.content
    assert block.type == "text", block.type
    return block.text


class Round:
    """What one client does, step by step."""

    def __init__(self, client):
        self.client = client
        self.left = []

    async def call(self, tool, /, **arguments):
        result = await self.client.call_tool(tool, arguments)
        text = text_of(result)
        assert not result.is_error, f"{tool} says: {text}"
        return json.loads(text)

    async def start(self, name):
        started = await self.call("start", command=COMMAND, name=name)

        async def pid():
            output = await self.call("output", id=started["id"])
            return output["stdout"].split("\n")[0]

        child = int(await until("pid of the second process", pid))
        return started["id"], [started["pid"], child]

    async def six_tools(self):
        tools = (await self.client.list_tools()).tools
        assert sorted(tool.name for tool in tools) == TOOLS, tools

    async def one_life(self):
        id, pids = await self.start("echo")
        assert re.fullmatch(r"sc-[0-9a-f]{6}", id), id
        assert await self.call("send", id=id, input="grüße") == {"ok": True}

        async def echoed():
            return "grüße\n" in (await self.call("output", id=id))["stdout"]

        await until("echo", echoed)
        status = await self.call("status", id="echo")
        assert (status["state"], status["exitCode"]) == ("running", None), status
        assert (await self.call("stop", id=id))["exitCode"] == -1
        assert not any(map(lives, pids)), "stop answered before the tree was gone"
        assert [entry["state"] for entry in await self.call("list")] == ["killed"]

    async def unknown_id(self):
        result = await self.client.call_tool("status", {"id": "sc-000000"})
        assert result.is_error and "sc-000000" in text_of(result), result

    async def leave_one(self):
        _, self.left = await self.start("left")


class Report:
    """One line for each check: what `cargo xtask interop` counts."""

    failed = False

    async def check(self, name, body):
        """Runs one check and tells whether it holds."""
        try:
            await body()
        except Exception as error:
            self.failed = True
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            reason = " ".join(str(error).split()) or repr(error)
            print(f"FAILED {name}: {reason}", flush=True)
            return False
        print(f"ok {name}", flush=True)
        return True


async def mode(report, server, mode, version):
    label = f"python {mode}"
    client = Client(
        StdioServerParameters(command=server), mode=mode, read_timeout_seconds=20
    )

    async def connect():
        await client.__aenter__()
        assert client.protocol_version == version, client.protocol_version

    if not await report.check(f"{label}: connect, {version}", connect):
        return
    round = Round(client)
    steps = {
        "six tools": round.six_tools,
        "start, send, output, status, stop": round.one_life,
        "unknown id": round.unknown_id,
        "one left running": round.leave_one,
    }
    for name, step in steps.items():
        if not await report.check(f"{label}: {name}", step):
            break

    async def close():
        before = time.monotonic()
        await client.__aexit__(None, None, None)
        took = time.monotonic() - before
        assert took < 2, f"closing took {took:.1f} s"

        async def gone():
            return not any(map(lives, round.left))

        await until("end of the processes", gone, within=2)

    await report.check(f"{label}: close in 2 s, nothing left", close)


async def main():
    report = Report()
    for name, version in MODES.items():
        await mode(report, sys.argv[1], name, version)
    return report.failed


sys.exit(anyio.run(main))
