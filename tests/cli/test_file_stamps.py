"""Which files have changed: also those that vanish, appear, or are put under the name of another."""

from __future__ import annotations

import os

from holdfast.cli.file_stamps import changed_files, stamp_of, stamps_of, with_folders, written_between


def test_a_file_that_was_replaced_has_changed_whatever_its_time_and_size(tmp_path):
    file, other = tmp_path / "a.py", tmp_path / "b.py"
    for each in (file, other):
        each.write_text("x")
        os.utime(each, ns=(1, 1))
    before = stamps_of([str(file)])
    assert changed_files(before, stamps_of(before)) == []
    other.rename(file)
    assert changed_files(before, stamps_of(before)) == [str(file)]


def test_a_symbolic_link_that_leads_elsewhere_has_changed(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text("x")
    link = tmp_path / "link.py"
    link.symlink_to("one")
    before = stamps_of([str(link)])
    link.unlink()
    link.symlink_to("two")
    assert changed_files(before, stamps_of(before)) == [str(link)]


def test_files_that_vanish_and_appear_have_changed(tmp_path):
    file = tmp_path / "odd \udcff name.py"
    before = stamps_of([str(file)])
    assert before == {str(file): None}
    file.write_text("x")
    assert changed_files(before, stamps_of(before)) == [str(file)]
    assert stamp_of("no\0name") is None


def test_a_time_in_the_future_is_not_taken_for_a_write_just_now():
    assert written_between([None, (5_999_999, 0, 0)], 5, 9)
    assert not written_between([None, (10_000_000, 0, 0), (4_999_999, 0, 0)], 5, 9)


def test_the_folders_of_files_are_looked_at_too(tmp_path):
    assert with_folders(["/x/a.py", "/x/b.py"], tmp_path) == sorted(["/x", "/x/a.py", "/x/b.py", str(tmp_path)])
