"""Why a query failed, said in one line: without a driver, on texts as Spark gives them."""

from workers.engine.spark.failure_messages import (
    EXECUTOR_IS_LOST,
    Cause,
    TaskCode,
    explain,
    explain_error,
    is_broker_away,
)
from workers.library.config import InvalidConfig

PYTHON = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/site/pyspark/worker.py", line 1900, in main
    process()
  File "/site/workers/library/parse.py", line 40, in _rows
    value = float(text)
            ^^^^^^^^^^^
ValueError: could not convert string to float: 'abc'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:586)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:"""
TASK_CODE = [
    TaskCode("source", "urban_sensing", "/site/workers/library/generators.py"),
    TaskCode("parser", "senml_parse", "/site/workers/library/parse.py"),
]


def test_a_python_error_is_its_last_line_and_names_the_task():
    causes = [Cause("org.apache.spark.sql.streaming.StreamingQueryException", "[STREAM_FAILED] Query …"),
              Cause("org.apache.spark.SparkException", PYTHON)]
    failure = explain(causes, TASK_CODE)
    assert str(failure) == "task parser: ValueError: could not convert string to float: 'abc'"
    assert not failure.broker_is_away


def test_tasks_of_one_module_are_all_named():
    both = [*TASK_CODE, TaskCode("other", "csv_parse", "/site/workers/library/parse.py")]
    assert str(explain([Cause("x.SparkException", PYTHON)], both)).startswith("one of tasks parser, other: ValueError")


def test_a_config_that_events_show_to_be_wrong_is_not_tried_for_ever():
    """Whatever the task reaches: what a function of a package gives stays what it gives."""
    text = PYTHON.replace("ValueError: could", "workers.library.config.InvalidConfig: could")
    places = [TaskCode("parser", "python", "/site/workers/library/parse.py", reaches_out=True)]
    failure = explain([Cause("x.SparkException", text)], places)
    assert str(failure) == "task parser: could not convert string to float: 'abc'" and not failure.may_pass
    assert explain([Cause("x.SparkException", PYTHON)], places).may_pass


def test_a_java_error_is_its_root_without_the_stack():
    causes = [
        Cause("org.apache.spark.sql.streaming.StreamingQueryException", "long"),
        Cause("java.lang.ArithmeticException", "[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==\nselect 1/0\n\tat a.b.C"),
    ]
    assert str(explain(causes, TASK_CODE)) == "ArithmeticException: [DIVIDE_BY_ZERO] Division by zero."


def test_an_absent_broker_is_told_from_a_broken_dataflow():
    assert explain([Cause("java.net.ConnectException", "Connection refused")], []).broker_is_away
    assert explain_error(ConnectionError("Error 111 connecting to 127.0.0.1:1. Connection refused.")).broker_is_away
    assert not is_broker_away("ValueError: could not convert string to float")


def test_an_executor_that_is_lost_is_nobodys_fault_and_may_pass():
    lost = Cause("org.apache.spark.SparkException", (
        "Job aborted due to stage failure: Task 0 in stage 9.0 failed 1 times, most recent failure: Lost task 0.0 in "
        "stage 9.0 (TID 9) (127.0.0.1 executor 1): ExecutorLostFailure (executor 1 exited caused by one of the running "
        "tasks) Reason: Command exited with code 137\nDriver stacktrace:"))
    failure = explain([Cause("org.apache.spark.sql.streaming.StreamingQueryException", "[STREAM_FAILED]"), lost], [])
    assert str(failure) == EXECUTOR_IS_LOST and failure.may_pass and not failure.tasks


def test_an_error_of_compiling_names_its_task_and_nothing_is_no_reason():
    assert str(explain_error(KeyError("window"), task="average")) == "task average: KeyError: 'window'"
    assert "without saying why" in str(explain([], TASK_CODE))


def test_where_the_data_folder_is_stays_the_installations_own(monkeypatch, tmp_path):
    monkeypatch.setenv("WEIR_DATA_DIR", str(tmp_path))
    failure = explain_error(OSError(f"File name too long: '{tmp_path}/outputs/x/_spark_metadata'"), task="files")
    assert str(tmp_path) not in str(failure) and "<data folder>/outputs/x" in str(failure)


def test_a_traceback_is_kept_whole_and_of_javas_none_of_it_is():
    failure = explain([Cause("org.apache.spark.SparkException", PYTHON)], TASK_CODE)
    assert failure.tasks == ("parser",)
    assert failure.traceback.startswith("Traceback (most recent call last):")
    assert 'File "/site/workers/library/parse.py", line 40' in failure.traceback
    assert "BasePythonRunner" not in failure.traceback


def test_what_reaches_beyond_weir_may_pass_and_what_only_weir_does_goes_wrong_again():
    causes = [Cause("org.apache.spark.SparkException", PYTHON)]
    outside = [TASK_CODE[0], TaskCode("parser", "http_get", "/site/workers/library/parse.py", reaches_out=True)]
    assert not explain(causes, TASK_CODE).may_pass
    assert explain(causes, outside).may_pass
    assert explain([Cause("java.io.IOException", "No space left on device")], TASK_CODE).may_pass
    assert not explain_error(KeyError("window"), task="average").may_pass
    assert explain_error(OSError("timed out"), task="look_up", reaches_out=True).may_pass
    assert not explain_error(InvalidConfig("its input has no sensor_id"), task="look_up", reaches_out=True).may_pass
