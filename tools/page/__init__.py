"""A local page in a browser that shows what a model does with a text.

    checkpoint --models.py--> model
    input --rows.py, predictions.py, attention.py, neighbors.py--> plain data
    plain data --views.py, plots.py--> results.py, the results of a tab
    tabs.py lists what the page has; site.py serves it and draws the results

site.py is the only module that imports Gradio.
"""
