import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.records import Failure
from optiml_core.store import Entry, Store, content_key


def open_store(folder: Path, **options: int) -> Store:
    folder.mkdir(mode=0o700, exist_ok=True)
    return Store.open(folder / "store.sqlite", secret_path=folder / "key" / "store.key", **options)


def test_what_was_put_is_there_for_the_next_process(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as store:
        assert store.put("compiled", "k", {"registers": 8, "note": "µ"}, b"\x7fELF\0") is None
        assert store.put("verdict", "k", [True, None, 1.5]) is None
    with open_store(tmp_path / "a") as store:
        assert store.get_entry("compiled", "k") == Entry({"registers": 8, "note": "µ"}, b"\x7fELF\0")
        assert store.get("verdict", "k") == [True, None, 1.5]
        assert store.get("profile", "k") is None
        assert store.messages == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values, st.binary())
def test_any_json_and_any_bytes_come_back(value: object, blob: bytes) -> None:
    store = Store.in_memory()
    value = json.loads(json.dumps(value))
    assert store.put("run", "key", value, blob) is None
    assert store.get_entry("run", "key") == Entry(value, blob)


@given(st.lists(st.text()), st.lists(st.text()))
def test_keys_of_different_parts_differ(left: list[str], right: list[str]) -> None:
    assert (content_key(*left) == content_key(*right)) == (left == right)


def test_not_a_number_and_unknown_kinds_are_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    with pytest.raises(ValueError, match="JSON"):
        store.put("run", "k", float("nan"))
    with pytest.raises(ValueError, match="kind"):
        store.put("compilde", "k", 1)


# ------------------------------------------------------------------------------------- planted entries


def plant(folder: Path, statement: str, row: tuple[object, ...] = ()) -> None:
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.execute(statement, row)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET blob = x'90'",
        "UPDATE entries SET value = '{\"registers\":9}'",
        "UPDATE entries SET value = CAST('{\"registers\":9}' AS BLOB)",
        "UPDATE entries SET key = 'other'",
        "UPDATE entries SET kind = 'run'",
        "UPDATE entries SET digest = zeroblob(32)",
        "UPDATE entries SET digest = 7",
        "UPDATE entries SET value = NULL || x''",
    ],
)
def test_an_entry_that_we_did_not_write_is_a_miss(tmp_path: Path, statement: str) -> None:
    folder = tmp_path / "a"
    with open_store(folder) as store:
        store.put("compiled", "k", {"registers": 8}, b"code")
        assert store.get("compiled", "k")
    try:
        plant(folder, statement)
    except sqlite3.IntegrityError:
        return
    with open_store(folder) as store:
        for kind in ("compiled", "run"):
            for key in ("k", "other"):
                assert store.get_entry(kind, key) is None


def test_an_entry_of_another_key_holder_is_a_miss(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with open_store(folder) as store:
        store.put("compiled", "k", 1, b"code")
        store.begin_search("s", "what")
        store.put_nodes("s", 0, [1, 2])
    (folder / "key" / "store.key").unlink()
    with open_store(folder) as store:
        assert store.get_entry("compiled", "k") is None
        assert store.nodes("s") == ()
        assert store.searches() == ()


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_key_that_others_may_read_is_not_trusted(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "a"
    with open_store(folder) as store:
        store.put("compiled", "k", 1, b"code")
    (folder / "key" / "store.key").chmod(mode)
    assert open_store(folder).get_entry("compiled", "k") is None


def test_the_key_is_never_in_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with open_store(folder) as store:
        store.put("compiled", "k", 1, b"code")
    secret = (folder / "key" / "store.key").read_bytes()
    assert len(secret) == 32
    assert (folder / "key" / "store.key").stat().st_mode & 0o777 == 0o600
    assert all(secret not in file.read_bytes() for file in folder.iterdir() if file.is_file())


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE other (x)",
    ],
)
def test_a_planted_schema_is_moved_aside(tmp_path: Path, planted: str) -> None:
    folder = tmp_path / "a"
    open_store(folder).close()
    plant(folder, planted)
    store = open_store(folder)
    assert "moved to" in store.messages[0]
    assert store.put("run", "k", 1) is None
    assert store.get("run", "k") == 1


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_store_that_others_may_write_is_not_used(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "a"
    with open_store(folder) as store:
        store.put("run", "k", 1)
    (folder if what == "folder" else folder / "store.sqlite").chmod(0o777)
    store = open_store(folder)
    assert "memory only" in store.messages[0]
    assert store.get("run", "k") is None
    assert store.put("run", "k", 2) is None
    assert store.get("run", "k") == 2


# ------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("data", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_file_is_moved_aside_and_said(tmp_path: Path, data: bytes) -> None:
    folder = tmp_path / "a"
    folder.mkdir(mode=0o700)
    (folder / "store.sqlite").write_bytes(data)
    store = open_store(folder)
    assert "moved to" in store.messages[0]
    assert store.put("run", "k", 1) is None
    assert store.get("run", "k") == 1
    aside = [file for file in folder.iterdir() if ".damaged-" in file.name]
    assert data in [file.read_bytes() for file in aside]


def test_damage_in_the_middle_of_the_file_is_found_while_reading(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with open_store(folder) as store:
        for number in range(200):
            store.put("run", f"k{number}", "x" * 1000)
    data = bytearray((folder / "store.sqlite").read_bytes())
    data[8192:] = b"\xa5" * (len(data) - 8192)
    (folder / "store.sqlite").write_bytes(data)
    store = open_store(folder)
    assert [store.get("run", f"k{number}") for number in range(200)].count(None) > 100
    assert any("moved to" in message for message in store.messages)
    assert store.put("run", "k", 1) is None
    assert store.get("run", "k") == 1


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir(mode=0o700)
    (folder / "store.sqlite").touch(mode=0o600)
    assert open_store(folder).put("run", "k", 1) is None


def test_a_place_that_cannot_be_written_gives_a_store_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store.open(tmp_path / "file" / "store.sqlite", secret_path=tmp_path / "file" / "key")
    assert "memory only" in store.messages[0]
    assert store.put("run", "k", 1) is None
    assert store.get("run", "k") == 1


WRITER = """
import sys
from pathlib import Path
from optiml_core.store import Store
folder = Path(sys.argv[1])
store = Store.open(folder / "store.sqlite", secret_path=folder / "key" / "store.key")
store.begin_search("s", "killed")
for number in range(10**6):
    assert store.put("compiled", str(number), number, bytes(5000)) is None
    assert store.put_nodes("s", number * 3, [number, number, number]) is None
    print(number, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 13, 60])
def test_a_writer_killed_at_any_moment_leaves_all_that_it_acknowledged(tmp_path: Path, lines: int) -> None:
    folder = tmp_path / "a"
    open_store(folder).close()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert writer.stdout
    last = [int(writer.stdout.readline()) for _ in range(lines)][-1]
    time.sleep(lines % 7 * 0.0007)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    last = max([last, *(int(line) for line in writer.stdout.read().split() if line)])
    store = open_store(folder)
    assert [store.get_entry("compiled", str(number)) for number in range(last + 1)] == [
        Entry(number, bytes(5000)) for number in range(last + 1)
    ]
    nodes = store.nodes("s")
    assert len(nodes) % 3 == 0
    assert list(nodes[: 3 * last + 3]) == [number for number in range(last + 1) for _ in range(3)]
    assert [(search.key, search.result) for search in store.searches()] == [("s", None)]
    assert store.messages == ()
    check = sqlite3.connect(folder / "store.sqlite")
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# ------------------------------------------------------------------------------------ size and sharing


def test_what_was_used_longest_ago_is_dropped_and_the_file_shrinks(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    limit = 1_000_000
    store = open_store(folder, limit=limit)
    for number in range(300):
        store.put("run", str(number), number, bytes(10_000))
    kept = [number for number in range(300) if store.get("run", str(number)) is not None]
    assert kept == list(range(kept[0], 300))
    assert 50 <= len(kept) <= 102
    store.close()
    assert (folder / "store.sqlite").stat().st_size < 2 * limit


def test_an_old_search_is_dropped_whole(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", limit=100_000)
    for search in range(20):
        store.begin_search(str(search), search)
        store.put_nodes(str(search), 0, ["x" * 1000] * 20)
    kept = {found.key for found in store.searches()}
    assert "19" in kept
    assert 1 <= len(kept) <= 6
    assert all(len(store.nodes(str(search))) == (20 if str(search) in kept else 0) for search in range(20))


def test_an_entry_too_large_for_the_store_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", limit=1000)
    failure = store.put("run", "k", 1, bytes(500))
    assert isinstance(failure, Failure)
    assert failure.kind == "refused"


def test_a_search_is_resumable_until_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with open_store(folder) as store:
        store.begin_search("one", {"kernel": "f"})
        store.put_nodes("one", 0, ["root", "child"])
        store.put_nodes("one", 2, ["grandchild"])
    with open_store(folder) as store:
        assert store.nodes("one") == ("root", "child", "grandchild")
        store.put_nodes("one", 1, ["child, visited twice"])
        assert store.nodes("one") == ("root", "child, visited twice", "grandchild")
        (found,) = store.searches()
        assert (found.key, found.description, found.result) == ("one", {"kernel": "f"}, None)
        store.end_search("one", {"best": 2})
        assert store.searches()[0].result == {"best": 2}
        store.begin_search("one", {"kernel": "g"})
        assert store.nodes("one") == ()


def test_nodes_after_a_gap_are_not_returned(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    store.begin_search("one", None)
    store.put_nodes("one", 0, [0, 1])
    store.put_nodes("one", 3, [3])
    assert store.nodes("one") == (0, 1)


def test_nodes_of_an_unknown_search_are_a_failure(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    store.put("run", "k", 1)
    assert isinstance(store.put_nodes("never begun", 0, [0]), Failure)
    assert store.get("run", "k") == 1


def test_threads_and_two_openings_share_one_file(tmp_path: Path) -> None:
    left, right = open_store(tmp_path / "a"), open_store(tmp_path / "a")

    def write(store: Store, name: str) -> None:
        for number in range(50):
            assert store.put("run", f"{name}{number}", number) is None

    threads = [
        threading.Thread(target=write, args=(store, name))
        for store, name in zip((left, left, right, right), "abcd", strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(left.get("run", f"{name}{number}") == number for name in "abcd" for number in range(50))
    assert left.messages == right.messages == ()


def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    store.put("run", "before", 1)
    child = os.fork()
    if child == 0:
        done = store.get("run", "before") == 1 and store.put("run", "child", 2) is None
        store.close()
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("run", "child") == 2
    assert store.put("run", "after", 3) is None
