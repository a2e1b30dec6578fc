# Runs pip, found at argv[1], in the environment of the interpreter that runs this.
#
# Only the package `pip` is taken from there, nothing that happens to lie beside it, so that pip
# sees the template's packages and no others. This is what `pip --python` does since pip 22.3.
# argv[2] is the interpreter's path in the guest: pip writes it into the scripts it makes.
import runpy
import sys
from importlib.machinery import PathFinder

location, guest_executable = sys.argv[1:3]


class OnlyPip:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname != "pip":
            return None
        return PathFinder.find_spec(fullname, [location])


sys.meta_path.insert(0, OnlyPip)
sys.executable = guest_executable
sys.argv = ["pip", *sys.argv[3:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
