"""A local page in a browser that shows what a model does with a text.

    checkpoint --models.py--> model
    text, model --views.py with attention.py, neighbors.py--> plain data
    tabs.py lists the tabs of models; site.py puts the data into components

site.py is the only module that imports Gradio.
"""
