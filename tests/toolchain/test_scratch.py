import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from optiml_core.toolchain.scratch import make_scratch, remove_abandoned, remove_scratch

OLD = time.time() - 100


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_in_use_stays_and_one_given_up_goes(place: Path) -> None:
    folder, lock = make_scratch("optiml-compile-")
    os.utime(folder, (OLD, OLD))
    assert remove_abandoned("optiml-compile-") == 0
    assert Path(folder).exists()
    os.close(lock)
    assert remove_abandoned("optiml-compile-") == 1
    assert not Path(folder).exists()


def test_what_a_killed_process_left_is_removed(place: Path) -> None:
    code = (
        "import os, signal, tempfile; tempfile.tempdir = os.environ['PLACE']\n"
        "from optiml_core.toolchain.scratch import make_scratch\n"
        "folder, _ = make_scratch('optiml-compile-')\n"
        "open(folder + '/0.pch', 'w').write('x' * 1000)\n"
        "os.utime(folder, (1, 1))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PLACE": str(place)}, check=False)
    assert len(list(place.iterdir())) == 1
    assert remove_abandoned("optiml-compile-") == 1
    assert list(place.iterdir()) == []


def test_young_foreign_and_linked_folders_stay(place: Path) -> None:
    (place / "optiml-compile-young").mkdir()
    (place / "optiml-compile-unlocked").mkdir()
    os.utime(place / "optiml-compile-unlocked", (OLD, OLD))
    (place / "other").mkdir()
    (place / "optiml-compile-link").symlink_to(place / "other")
    (place / "optiml-else").mkdir()
    (place / "optiml-compile-file").write_text("")
    for name in ("other", "optiml-else", "optiml-compile-file"):
        os.utime(place / name, (1, 1))
    assert remove_abandoned("optiml-compile-") == 0
    assert len(list(place.iterdir())) == 6


def test_old_short_lived_folders_go(place: Path) -> None:
    (place / "optiml-nvcc-x").mkdir()
    (place / "optiml-sass-x").mkdir()
    os.utime(place / "optiml-nvcc-x", (1, 1))
    assert remove_abandoned("optiml-compile-") == 1
    assert [path.name for path in place.iterdir()] == ["optiml-sass-x"]


def test_a_folder_is_private(place: Path) -> None:
    folder, lock = make_scratch("optiml-compile-")
    assert os.stat(folder).st_mode & 0o777 == 0o700
    remove_scratch(folder, lock)
    assert not Path(folder).exists()
