"""JupyterHub for one class with nbgrader: copy this file, change the names, start it as root on the class's machine.

    jupyterhub -f jupyterhub_config.py

Everyone here has an account on that machine and logs in with its password. tests/grading/hub runs this very file.
"""

import json
from pathlib import Path

COURSE = "perf101"
INSTRUCTORS = {"grace"}
STUDENTS = {"ada", "bob"}
SHARED = Path("/srv/class")  # the exchange and the settings; the course folder lies in the instructor's home folder

c = get_config()  # noqa: F821  (JupyterHub puts it there)

# Assignments are handed out and in through this folder, which everyone may write to.
exchange = SHARED / "exchange"
exchange.mkdir(parents=True, exist_ok=True)
exchange.chmod(0o777)

# Settings that Jupyter reads in every account; those of students come first and take the instructor's tools away.
settings, students = SHARED / "jupyter", SHARED / "jupyter-students"
FILES = {
    settings / "nbgrader_config.py": (
        f"c = get_config()\nc.CourseDirectory.course_id = {COURSE!r}\nc.Exchange.root = {str(exchange)!r}\n"
    ),
    settings / "jupyter_server_config.json": json.dumps({"ServerApp": {
        # Formgrader is a page within JupyterLab's page, which JupyterHub forbids by default.
        "tornado_settings": {"headers": {"Content-Security-Policy": "frame-ancestors 'self'"}},
        # A login shell, which terminals have where the hub runs as a service, would not find rooflab and nbgrader.
        "terminado_settings": {"shell_command": ["/bin/bash"]},
    }}),
    settings / "labconfig" / "page_config.json": json.dumps(
        {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    ),
    students / "jupyter_server_config.d" / "class.json": json.dumps(
        {"ServerApp": {"jpserver_extensions": {f"nbgrader.server_extensions.{name}": False for name in (
            "formgrader", "course_list",
        )}}}
    ),
    students / "labconfig" / "page_config.json": json.dumps(
        {"disabledExtensions": {f"@jupyter/nbgrader:{name}": True for name in (
            "formgrader", "course-list", "create-assignment",
        )}}
    ),
}  # fmt: skip
for path, text in FILES.items():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def prepare(spawner):
    """Give each account the settings of its role."""
    folders = [settings] if spawner.user.name in INSTRUCTORS else [students, settings]
    spawner.environment["JUPYTER_CONFIG_PATH"] = ":".join(map(str, folders))


c.Spawner.pre_spawn_hook = prepare
c.Spawner.default_url = "/lab"
c.Spawner.http_timeout = c.Spawner.start_timeout = 120  # many start at once when a lesson begins
c.Authenticator.allowed_users = STUDENTS | INSTRUCTORS
c.Authenticator.admin_users = INSTRUCTORS
c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # put a web server with TLS in front, or see JupyterHub's ssl_key
