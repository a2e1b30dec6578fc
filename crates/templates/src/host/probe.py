# Prints, as JSON, what Silica needs to know of the interpreter that runs this.
import glob
import json
import os
import sys
import sysconfig

base = getattr(sys, "_base_executable", None) or sys.executable
facts = {
    "executable": os.path.realpath(base),
    "base_prefix": os.path.realpath(sys.base_prefix),
    "version": list(sys.version_info[:3]),
    "abi": "{}-{}".format(sysconfig.get_config_var("SOABI") or "none", sysconfig.get_platform()),
    "stdlib": os.path.realpath(os.path.dirname(os.__file__)),
    "shared": bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
    "libdir": sysconfig.get_config_var("LIBDIR") or "",
    "implementation": sys.implementation.name,
    "pip": None,
    "pip_version": [],
}

# The pip of this interpreter, else the wheel that ensurepip would install: it runs from the zip.
try:
    import pip

    facts["pip"] = os.path.dirname(os.path.dirname(os.path.abspath(pip.__file__)))
except ImportError:
    try:
        import ensurepip

        bundled = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl")
        wheels = sorted(glob.glob(bundled))
        if wheels:
            sys.path.insert(0, wheels[-1])
            import pip

            facts["pip"] = wheels[-1]
    except ImportError:
        pass
if facts["pip"]:
    facts["pip_version"] = [int(part) for part in pip.__version__.split(".")[:2] if part.isdigit()]

json.dump(facts, sys.stdout)
