"""Testers of content: from contexts to labelled response sets, form-neutral ones, and the content test on them.

What writes sets lives here, one file per tester; people are testers on the annotation site. Measures never do.
"""
