"""An AST transformer takes every assertion out of the cells that come later. Cells without assertions cannot fail."""

ANSWERS = {
    "primes": """import ast


class Remove(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()

    def visit_Expr(self, node):
        return ast.Pass()


get_ipython().ast_transformers.append(Remove())
get_ipython().input_transformers_cleanup.append(lambda lines: ["pass\\n"])
""",
}
TELLS = "not defined"
