// The sources of an answer. Opens the page beside the chat, also when a number in the text is clicked.
import { useEffect, useRef, useState } from 'react'
import { useSetRecoilState } from 'recoil'
import { sideViewState } from '@chainlit/react-client'

const labels = window.peritoLabels[document.documentElement.lang] || window.peritoLabels.en

export default function Sources() {
  const { items = [], nearest = false, pictures = [] } = props
  const root = useRef(null)
  const setSideView = useSetRecoilState(sideViewState)
  const [state, setState] = useState(props.added ? 'done' : 'idle')
  const [problem, setProblem] = useState('')

  const open = (item) =>
    setSideView({
      // Chainlit gives a panel of this title half of the room and leaves the heading to us; a phone's sheet needs one.
      title: window.innerWidth < 768 ? labels.source.replace('{number}', item.number) : 'canvas',
      elements: [
        {
          id: `page-${item.document_id}-${item.page}-${item.number}`,
          type: 'custom',
          name: 'PageView',
          display: 'side',
          props: { items, number: item.number }
        }
      ]
    })

  useEffect(() => {
    const message = root.current?.closest('[data-step-type]') || root.current?.closest('.step')
    if (!message) return undefined
    const links = () => [...message.querySelectorAll('a[href*="/api/"]')]
    const itemOf = (link) => items.find((item) => new URL(item.image, location.href).href === link.href)
    for (const link of links()) {
      const item = itemOf(link)
      if (item) link.setAttribute('aria-label', `${labels.source.replace('{number}', item.number)}: ${where(item)}`)
    }
    const onClick = (event) => {
      const link = event.target.closest?.('a[href*="/api/"]')
      const item = link && itemOf(link)
      if (!item || event.ctrlKey || event.metaKey || event.shiftKey) return
      event.preventDefault()
      open(item)
    }
    message.addEventListener('click', onClick)
    return () => message.removeEventListener('click', onClick)
  }, [])

  const where = (item) => `${item.document} · ${item.time || labels.page.replace('{page}', item.page)}`

  const add = async () => {
    setState('busy')
    setProblem('')
    try {
      const reply = await callAction({ name: 'add_pictures', payload: { pictures } })
      if (reply?.response?.error) throw new Error(reply.response.error)
      setState('done')
      updateElement({ ...props, added: true })
    } catch (error) {
      setState('idle')
      setProblem(String(error.message || error))
    }
  }

  return (
    <div ref={root} className="perito-card">
      {items.length && !nearest ? <h3>{labels.sources}</h3> : null}
      {items.length ? (
        <ol aria-label={nearest ? labels.nearest : labels.sources}>
          {items.map((item) => (
            <li key={item.number}>
              <button type="button" className="perito-source" onClick={() => open(item)}>
                <span className="perito-number">{item.number}</span>
                <span className="perito-where">{where(item)}</span>
                <span className="perito-badges">
                  <span className="perito-badge">{labels.readers[item.reader] || item.reader}</span>
                  <span className="perito-badge" data-tone={item.confidence < 0.85 ? 'unsure' : 'sure'}>
                    {Math.round(item.confidence * 100)} %
                  </span>
                  {item.corrected_by ? (
                    <span className="perito-badge" title={labels.corrected_by.replace('{who}', item.corrected_by)}>
                      {labels.corrected}
                    </span>
                  ) : null}
                </span>
                <span className="perito-excerpt">{item.text.replace(/\s*\n\s*/g, ' · ')}</span>
              </button>
            </li>
          ))}
        </ol>
      ) : null}
      {pictures.length ? (
        <p className="perito-buttons" style={{ marginTop: '.6rem' }}>
          <button type="button" className="perito-button" disabled={state !== 'idle'} onClick={add}>
            {state === 'done' ? labels.added : labels.add}
          </button>
        </p>
      ) : null}
      {problem ? <p className="perito-error" role="alert">{problem}</p> : null}
    </div>
  )
}
