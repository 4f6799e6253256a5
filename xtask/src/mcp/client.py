"""One conversation of the official Python client with Proctor: start a service, watch it, wait for it, kill the daemon in the
middle and go on, stop it. What to speak to comes as JSON in the first argument; any surprise ends it with a traceback."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import warnings

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

TOLD = json.loads(sys.argv[1])
NAME = "ticker"
ADDRESS = ("127.0.0.1", urllib.parse.urlsplit(TOLD["url"]).port)
LOGS = f"proctor://services/{NAME}/logs"
STATUS = f"proctor://services/{NAME}/status"

# Generous: machines are noisy, and only a failing conversation waits this long.
LIMIT = 30

MODES = {"legacy": "legacy", "modern": "2026-07-28"}
OVER_STDIO = TOLD["transport"] == "stdio"
MODERN = TOLD["era"] == "modern"

# A request whose connection breaks takes this client with it, all but its older manner of reading answers.
ENDS_WITH_ITS_CONNECTION = MODERN and not OVER_STDIO

# What it uses in the older revision is deprecated, as it should be.
warnings.filterwarnings("ignore")


def server():
    if OVER_STDIO:
        return StdioServerParameters(command=TOLD["proctor"], args=["--home", TOLD["home"], "mcp"])
    client = create_mcp_http_client(headers={"Authorization": f"Bearer {TOLD['token']}"})
    return streamable_http_client(TOLD["url"], http_client=client)


def command_line(*words):
    command = [TOLD["proctor"], "--home", TOLD["home"], "--json", *words]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def is_served():
    with contextlib.suppress(OSError), socket.create_connection(ADDRESS, timeout=1):
        return True
    return OVER_STDIO


def is_alive(pid):
    return os.path.exists(f"/proc/{pid}")


class Watched:
    """What the server told of resources that changed."""

    def __init__(self):
        self.uris = []

    async def heard(self, message):
        if getattr(message, "method", None) == "notifications/resources/updated":
            self.uris.append(str(message.params.uri))

    async def wait(self, uri):
        before = self.uris.count(uri)
        with anyio.fail_after(LIMIT):
            while self.uris.count(uri) == before:
                await anyio.sleep(0.02)


class Conversation:
    def __init__(self, client, watched):
        self.client, self.watched = client, watched
        self.lines, self.cursor = [], None

    async def call(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if part.type == "text")
        assert not result.is_error, f"{tool}: {text}"
        assert text, f"{tool} said nothing to read"
        # Tools whose answer is text have their facts beside it.
        facts = result.structured_content or (result.meta or {}).get("proctor/facts")
        return facts, text

    async def service(self):
        answer, _ = await self.call("get_process_status", names=[NAME])
        (service,) = answer["services"]
        return service

    async def read_on(self):
        """Only what is new, until there is something."""
        arguments = {"tail": 1000} if self.cursor is None else {"cursor": self.cursor, "wait": 20}
        answer, text = await self.call("get_process_logs", services=[NAME], **arguments)
        self.lines += [int(number) for number in re.findall(r"\bline (\d+)$", text, re.MULTILINE)]
        self.cursor = answer["cursor"]

    @contextlib.asynccontextmanager
    async def watching(self):
        """Told of each change of the log, in the manner of the era."""
        if not MODERN:
            await self.client.subscribe_resource(LOGS)
            yield
            await self.client.unsubscribe_resource(LOGS)
            return
        async with self.client.listen(resource_subscriptions=[LOGS]) as subscription:
            async with anyio.create_task_group() as group:

                async def hear():
                    async for event in subscription:
                        self.watched.uris.append(event.uri)

                group.start_soon(hear)
                yield
                group.cancel_scope.cancel()


async def begin(conversation):
    client = conversation.client
    expected = "2026-07-28" if MODERN else "2025-11-25"
    assert client.protocol_version == expected, client.protocol_version
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"start_process", "wait_for_process", "stop_process", "get_process_logs"} <= tools, tools
    if not MODERN:
        assert "start_process" in client.instructions
    command = f"{TOLD['victim']} --every 20 --lines 1000000"
    # Over HTTP nobody knows where the client is.
    place = {} if OVER_STDIO else {"working_dir": TOLD["home"]}
    await conversation.call("start_process", name=NAME, command=command, **place)
    answer, _ = await conversation.call("wait_for_process", names=[NAME], until="running", timeout=20)
    assert answer["reached"], answer
    service = await conversation.service()
    assert service["state"] == "running" and is_alive(service["pid"]), service
    return service["pid"]


async def watch(conversation):
    async with conversation.watching():
        await conversation.watched.wait(LOGS)
    for _ in range(3):
        await conversation.read_on()
    read = await conversation.client.read_resource(STATUS)
    assert f'"{NAME}"' in read.contents[0].text, read


async def kill_in_the_middle(conversation):
    """The daemon is killed while somebody waits for what does not happen."""
    daemon = command_line("daemon", "status")["daemon"]["pid"]

    async def wait_in_vain():
        arguments = {"names": [NAME], "until": "stopped", "timeout": 3}
        try:
            answer, _ = await conversation.call("wait_for_process", **arguments)
        except MCPError:
            # Over HTTP the answer went with the daemon.
            assert not OVER_STDIO
            return
        assert not answer["reached"], answer

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(wait_in_vain)
            await anyio.sleep(0.3)
            os.kill(daemon, signal.SIGKILL)
            # Whoever asks while there is no daemon is refused over HTTP.
            while command_line("daemon", "status")["daemon"]["pid"] == daemon or not is_served():
                await anyio.sleep(0.05)


async def go_on(conversation, pid):
    service = await conversation.service()
    assert service["pid"] == pid and service["restarts"] == 0, service
    for _ in range(3):
        await conversation.read_on()
    first, last = conversation.lines[0], conversation.lines[-1]
    assert conversation.lines == list(range(first, last + 1)), "lines are missing or doubled"
    async with conversation.watching():
        await conversation.watched.wait(LOGS)


async def end(conversation, pid):
    await conversation.call("stop_process", names=[NAME])
    assert not is_alive(pid), "it says it is stopped and it runs"
    answer, _ = await conversation.call("wait_for_process", names=[NAME], until="stopped", timeout=20)
    assert answer["reached"], answer
    await conversation.call("remove_process", names=[NAME])
    answer, _ = await conversation.call("list_processes")
    assert [service["name"] for service in answer["services"]] == ["idle"], answer


async def main():
    watched = Watched()
    connect = lambda: Client(server(), mode=MODES[TOLD["era"]], message_handler=watched.heard)
    try:
        async with connect() as client:
            conversation = Conversation(client, watched)
            pid = await begin(conversation)
            await watch(conversation)
            await kill_in_the_middle(conversation)
            if not ENDS_WITH_ITS_CONNECTION:
                await go_on(conversation, pid)
                await end(conversation, pid)
                return
    except* httpx2.TransportError:
        assert ENDS_WITH_ITS_CONNECTION
    async with connect() as client:
        conversation.client = client
        await go_on(conversation, pid)
        await end(conversation, pid)


anyio.run(main)
