"""A local page in a browser that shows what a model does with a text.

    checkpoint --models.py--> model
    text, model --inputs.py, attention.py, neighbors.py--> plain data
    plain data --views.py with markup.py--> the result of a tab
    tabs.py lists the tabs of models; site.py serves them

site.py is the only module that imports Gradio.
"""
