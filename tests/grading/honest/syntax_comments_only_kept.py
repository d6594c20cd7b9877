"""Comments stand around the answers, the docstrings are gone, and the formatting is another."""

ANSWERS = {
    "nearest": "# first\n\n\ndef nearest( values,target ) :\n\t# second\n\treturn min( sorted( values ),"
    "key = lambda v:abs( v-target ) ) ;\n# last\n",
}
