"""What is run: CPython's modules, and stated files of numpy and pandas, in parts of a minute or two."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

CPYTHON = "cpython"
CPYTHON_PARTS = 20
TEST_SECONDS_MAX = 180
"""How long one of CPython's modules, or one test of the others, may take."""

# Only these are left out. Modules that need a network, a screen, a device or gigabytes skip themselves unless such a
# resource is enabled: they are run, and do not count on either side.
LEFT_OUT = {
    "take minutes": ("test_peg_generator", "test_regrtest", "test_tools"),
}

# Releases that do not install these packages still install all that is behind them.
DOORS = {
    f"test_multiprocessing_{way}": (
        "from test._test_multiprocessing import install_tests_in_module_dict\n"
        f"install_tests_in_module_dict(globals(), {way!r}, only_type='processes')\n"
    )
    for way in ("fork", "spawn", "forkserver")
}

# Packages that hold their own tests, which templates leave out; the whole package is laid over the template's.
WITH_TESTS = ("ctypes", "distutils", "unittest")

# Files and folders below the package, one tuple for each part.
FILES = {
    "numpy": (
        (
            "_core/tests/test_array_coercion.py",
            "_core/tests/test_arrayprint.py",
            "_core/tests/test_datetime.py",
            "_core/tests/test_dtype.py",
            "_core/tests/test_einsum.py",
            "_core/tests/test_indexing.py",
            "_core/tests/test_memmap.py",
            "_core/tests/test_multiarray.py",
            "_core/tests/test_multithreading.py",
            "_core/tests/test_nditer.py",
            "_core/tests/test_numeric.py",
            "_core/tests/test_records.py",
            "_core/tests/test_scalarmath.py",
            "_core/tests/test_shape_base.py",
            "_core/tests/test_strings.py",
            "_core/tests/test_ufunc.py",
        ),
        ("fft/tests", "lib/tests", "linalg/tests", "ma/tests", "matrixlib/tests", "polynomial/tests", "random/tests"),
    ),
    "pandas": (
        (
            "tests/frame/test_constructors.py",
            "tests/groupby/test_groupby.py",
            "tests/resample/test_datetime_index.py",
            "tests/reshape/merge/test_merge.py",
            "tests/series/test_constructors.py",
            "tests/strings/test_strings.py",
        ),
        (
            "tests/io/formats/test_to_csv.py",
            "tests/io/json/test_pandas.py",
            "tests/io/parser/common/test_common_basic.py",
            "tests/io/parser/common/test_file_buffer_url.py",
            "tests/io/parser/test_multi_thread.py",
            "tests/io/parser/test_read_fwf.py",
            "tests/io/test_common.py",
            "tests/io/test_compression.py",
            "tests/io/test_pickle.py",
        ),
    ),
}

MARKS = "not slow and not network and not db and not single_cpu and not clipboard"
"""What pandas calls its tests that need more than a process; numpy has the first."""

SUITES = (CPYTHON, *FILES)

AROUND = re.compile(r"(?:setUp|tearDown)\w+ \((.*)\)")
"""What fails before or after the tests of a class or module is called so."""


@dataclass(frozen=True)
class Part:
    """Some modules or files of one suite."""

    suite: str
    number: int
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.suite}-{self.number}"

    @property
    def template(self) -> str:
        return "python" if self.suite == CPYTHON else "code-interpreter"

    def only(self, tests: tuple[str, ...]) -> "Part":
        return Part(self.suite, self.number, tests)


def stdlib() -> Path:
    """The standard library of the interpreter that runs this, which must be the one the templates were made from."""
    return Path(sys.modules["os"].__file__).parent


def modules() -> list[str]:
    """CPython's modules, without those that are left out."""
    folder = stdlib() / "test"
    names = {path.stem for path in folder.glob("test_*.py")}
    names |= {path.name for path in folder.glob("test_*") if (path / "__init__.py").exists()}
    if not names:
        sys.exit(f"{sys.executable} has no package `test`: take an interpreter that was installed with its tests")
    return sorted((names | DOORS.keys()) - {name for names in LEFT_OUT.values() for name in names})


def parts(suite: str) -> list[Part]:
    if suite == CPYTHON:
        # Neighbours are alike, so every twentieth makes parts that are about as long as each other.
        names = modules()
        lists = [tuple(names[start::CPYTHON_PARTS]) for start in range(CPYTHON_PARTS)]
    else:
        lists = FILES[suite]
    return [Part(suite, number, tests) for number, tests in enumerate(lists, 1)]


def home_of(test: str, part: Part) -> str | None:
    """Which of the part's modules or files a test is from."""
    around = AROUND.fullmatch(test)
    place = (around[1] if around else test) + "."
    return next((one for one in part.tests if any(place.startswith(f"{name}.") for name in names_of(one, part))), None)


def names_of(one: str, part: Part) -> list[str]:
    """What the names of a module's or file's tests begin with."""
    if part.suite == CPYTHON:
        package = one.removeprefix("test_")
        return [f"test.{one}", *(f"{package}.{folder}" for folder in ("test", "tests") if package in WITH_TESTS)]
    return [f"{part.suite}.{one.removesuffix('.py').replace('/', '.')}"]
